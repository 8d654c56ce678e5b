//! A graph of points in time: which one must come before which other, and why. A cycle is a contradiction.

use crate::history::{Number, Span};

/// Why a point comes before another; with the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    /// It wrote the version that the other one replaced.
    WriteWrite(i32),
    /// It wrote the version that the other one read.
    WriteRead(i32),
    /// It read the version that the other one replaced.
    ReadWrite(i32),
    /// Both belong to one transaction, in this order.
    Program,
    /// It had ended when the other one began.
    RealTime,
}

impl Why {
    pub(crate) fn key(self) -> Option<i32> {
        match self {
            Why::WriteWrite(key) | Why::WriteRead(key) | Why::ReadWrite(key) => Some(key),
            Why::Program | Why::RealTime => None,
        }
    }
}

/// A step of a cycle: the transaction at its start, and why it comes before the next step's.
pub(crate) type Step = (Number, Why);

struct Point {
    number: Number,
    span: Span,
    /// Whether what ended before another point began is known to precede it.
    precedes: bool,
    edges: Vec<(usize, Why)>,
}

#[derive(Default)]
pub(crate) struct Graph {
    points: Vec<Point>,
}

impl Graph {
    pub(crate) fn point(&mut self, number: Number, span: Span, precedes: bool) -> usize {
        self.points.push(Point { number, span, precedes, edges: Vec::new() });
        self.points.len() - 1
    }

    pub(crate) fn span(&self, point: usize) -> Span {
        self.points[point].span
    }

    pub(crate) fn add(&mut self, from: usize, to: usize, why: Why) {
        if from != to {
            self.points[from].edges.push((to, why));
        }
    }

    /// Points that ended before another began come before it. Only the last ones to end are named: the others come
    /// before those already.
    pub(crate) fn add_real_time(&mut self) {
        let mut by_end: Vec<usize> = (0..self.points.len()).filter(|&i| self.points[i].precedes).collect();
        by_end.sort_by_key(|&i| self.points[i].span.ended);
        let ended = |graph: &Graph, i: usize| graph.points[i].span.ended;
        for to in 0..self.points.len() {
            let began = self.points[to].span.began;
            let before = by_end.partition_point(|&other| ended(self, other) < began);
            let Some(&last) = before.checked_sub(1).and_then(|last| by_end.get(last)) else { continue };
            let last_began = self.points[last].span.began;
            let named = by_end[..before].iter().rev().take_while(|&&other| ended(self, other) >= last_began);
            let named: Vec<usize> = named.copied().collect();
            named.into_iter().for_each(|from| self.add(from, to, Why::RealTime));
        }
    }

    /// A short cycle, if there is any: the shortest one through some point of the first that is found.
    pub(crate) fn cycle(&self) -> Option<Vec<Step>> {
        let on_cycle = self.any_cycle()?;
        on_cycle.iter().filter_map(|&point| self.shortest_through(point)).min_by_key(Vec::len)
    }

    /// Depth-first, without recursion.
    fn any_cycle(&self) -> Option<Vec<usize>> {
        #[derive(Clone, Copy, PartialEq)]
        enum Mark {
            New,
            OnPath,
            Done,
        }
        let mut marks = vec![Mark::New; self.points.len()];
        for root in 0..self.points.len() {
            if marks[root] != Mark::New {
                continue;
            }
            let mut path = vec![(root, 0)];
            marks[root] = Mark::OnPath;
            while let Some((point, edge)) = path.last_mut() {
                let Some(&(to, _)) = self.points[*point].edges.get(*edge) else {
                    marks[*point] = Mark::Done;
                    path.pop();
                    continue;
                };
                *edge += 1;
                match marks[to] {
                    Mark::Done => {}
                    Mark::New => {
                        marks[to] = Mark::OnPath;
                        path.push((to, 0));
                    }
                    Mark::OnPath => {
                        let start =
                            path.iter().position(|(point, _)| *point == to).expect("it is on the path");
                        return Some(path[start..].iter().map(|(point, _)| *point).collect());
                    }
                }
            }
        }
        None
    }

    /// Breadth-first from a point back to itself.
    fn shortest_through(&self, start: usize) -> Option<Vec<Step>> {
        let mut came_by: Vec<Option<(usize, Why)>> = vec![None; self.points.len()];
        let mut queue = std::collections::VecDeque::from([start]);
        while let Some(point) = queue.pop_front() {
            for &(to, why) in &self.points[point].edges {
                if came_by[to].is_none() {
                    came_by[to] = Some((point, why));
                    queue.push_back(to);
                }
            }
            if came_by[start].is_some() {
                break;
            }
        }
        let mut steps = Vec::new();
        let mut point = start;
        loop {
            let (from, why) = came_by[point]?;
            steps.push((self.points[from].number, why));
            point = from;
            if point == start {
                steps.reverse();
                return Some(steps);
            }
        }
    }
}
