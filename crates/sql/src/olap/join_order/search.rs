//! The cheapest order of joins, by numbers alone.
//!
//! Sets of inputs are masks: bit `i` is input `i`. How many rows a set joins to does not depend on the order; what is paid on the way
//! does. Up to [`EXHAUSTIVE_MAX`] inputs all trees without cross products are compared (dynamic programming over sets, as in Selinger's
//! optimizer, with bushy trees); beyond, the two parts whose join is smallest are joined again and again.

/// As many inputs are ordered at most; a tree of more stays as it is.
pub(super) const INPUTS_MAX: usize = 64;
/// As many inputs as all trees are compared for: 3^10 splits take a third of a millisecond.
const EXHAUSTIVE_MAX: usize = 10;

/// What a row of the smaller side costs, which goes into a table, by one that is looked up there or comes out.
const BUILD_COST: f64 = 2.0;

/// A set of inputs.
pub(super) type Inputs = u64;

/// What is known of a join of many inputs.
#[derive(Debug, Default)]
pub(super) struct JoinGraph {
    /// The rows of each input.
    pub(super) rows: Vec<f64>,
    /// Which pairs of inputs are joined by keys, and the share of their pairs of rows that have the same.
    pub(super) edges: Vec<(usize, usize, f64)>,
    /// Conditions besides, by the inputs that they look at, and the share of rows that pass.
    pub(super) conditions: Vec<(Inputs, f64)>,
}

/// A tree of joins.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum JoinTree {
    Input(usize),
    Join(Box<JoinTree>, Box<JoinTree>),
}

impl JoinTree {
    pub(super) fn join(left: JoinTree, right: JoinTree) -> JoinTree {
        JoinTree::Join(Box::new(left), Box::new(right))
    }

    pub(super) fn inputs(&self) -> Inputs {
        match self {
            JoinTree::Input(input) => 1 << input,
            JoinTree::Join(left, right) => left.inputs() | right.inputs(),
        }
    }
}

/// A tree, and what all its joins cost.
#[derive(Clone, Debug)]
struct Costed {
    cost: f64,
    rows: f64,
    tree: JoinTree,
}

impl JoinGraph {
    /// How many rows a set joins to.
    pub(super) fn rows_of(&self, of: Inputs) -> f64 {
        let has = |input: usize| of >> input & 1 != 0;
        let inputs = self.rows.iter().enumerate().filter(|(input, _)| has(*input)).map(|(_, rows)| *rows);
        let keys = self.edges.iter().filter(|(a, b, _)| has(*a) && has(*b)).map(|(_, _, share)| *share);
        let conditions =
            self.conditions.iter().filter(|(looked, _)| looked & !of == 0).map(|(_, share)| *share);
        inputs.chain(keys).chain(conditions).product::<f64>().max(1.0)
    }

    fn is_joined(&self, left: Inputs, right: Inputs) -> bool {
        let crosses = |a: usize, b: usize| left >> a & 1 != 0 && right >> b & 1 != 0;
        self.edges.iter().any(|&(a, b, _)| crosses(a, b) || crosses(b, a))
    }

    /// What a tree costs.
    pub(super) fn cost(&self, tree: &JoinTree) -> f64 {
        match tree {
            JoinTree::Input(_) => 0.0,
            JoinTree::Join(left, right) => {
                let (few, many) = (self.rows_of(left.inputs()), self.rows_of(right.inputs()));
                self.cost(left) + self.cost(right) + join_cost(few, many, self.rows_of(tree.inputs()))
            }
        }
    }

    fn input(&self, input: usize) -> Costed {
        Costed { cost: 0.0, rows: self.rows[input].max(1.0), tree: JoinTree::Input(input) }
    }

    /// The smaller side left, where it is built.
    fn joined(&self, left: &Costed, right: &Costed) -> Costed {
        let rows = self.rows_of(left.tree.inputs() | right.tree.inputs());
        let (left, right) = if left.rows <= right.rows { (left, right) } else { (right, left) };
        let cost = left.cost + right.cost + join_cost(left.rows, right.rows, rows);
        Costed { cost, rows, tree: JoinTree::join(left.tree.clone(), right.tree.clone()) }
    }

    /// The cheapest tree that is found; `None` where some inputs are joined with no others, or there are too many.
    pub(super) fn cheapest(&self) -> Option<JoinTree> {
        match self.rows.len() {
            0 => None,
            inputs if inputs <= EXHAUSTIVE_MAX => self.of_all_trees(),
            inputs if inputs <= INPUTS_MAX => self.smallest_first(),
            _ => None,
        }
    }

    fn of_all_trees(&self) -> Option<JoinTree> {
        let all: Inputs = (1 << self.rows.len()) - 1;
        let mut best: Vec<Option<Costed>> = vec![None; all as usize + 1];
        for set in 1..=all {
            if set.is_power_of_two() {
                best[set as usize] = Some(self.input(set.trailing_zeros() as usize));
                continue;
            }
            let rows = self.rows_of(set);
            // Halves of which one has the lowest input: each split once.
            let (lowest, others) = (set & set.wrapping_neg(), set & (set - 1));
            let mut cheapest: Option<(f64, Inputs)> = None;
            let mut right = others;
            while right != 0 {
                let left = set & !right;
                debug_assert!(left & lowest != 0);
                if let (Some(left_best), Some(right_best)) = (&best[left as usize], &best[right as usize])
                    && self.is_joined(left, right)
                {
                    let cost =
                        left_best.cost + right_best.cost + join_cost(left_best.rows, right_best.rows, rows);
                    if cheapest.is_none_or(|(least, _)| cost < least) {
                        cheapest = Some((cost, right));
                    }
                }
                right = (right - 1) & others;
            }
            best[set as usize] = cheapest.and_then(|(_, right)| {
                let (left, right) = (&best[(set & !right) as usize], &best[right as usize]);
                Some(self.joined(left.as_ref()?, right.as_ref()?))
            });
        }
        best.pop().flatten().map(|found| found.tree)
    }

    fn smallest_first(&self) -> Option<JoinTree> {
        let mut parts: Vec<Costed> = (0..self.rows.len()).map(|input| self.input(input)).collect();
        while parts.len() > 1 {
            let mut smallest: Option<(usize, usize, Costed)> = None;
            for right in 1..parts.len() {
                for left in 0..right {
                    if !self.is_joined(parts[left].tree.inputs(), parts[right].tree.inputs()) {
                        continue;
                    }
                    let joined = self.joined(&parts[left], &parts[right]);
                    if smallest.as_ref().is_none_or(|(_, _, known)| joined.rows < known.rows) {
                        smallest = Some((left, right, joined));
                    }
                }
            }
            let (left, right, joined) = smallest?;
            parts.swap_remove(right);
            parts[left] = joined;
        }
        parts.pop().map(|found| found.tree)
    }
}

/// A join of two sides that gives so many rows: the smaller is built.
fn join_cost(left: f64, right: f64, rows: f64) -> f64 {
    BUILD_COST * left.min(right) + left.max(right) + rows
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TPC-H Q7 as it is written: supplier, lineitem, orders, customer, and two nations, of which two are wanted.
    fn shipping() -> (JoinGraph, JoinTree) {
        let graph = JoinGraph {
            rows: vec![1e4, 1.8e6, 1.5e6, 1.5e5, 2.0, 2.0],
            edges: vec![(0, 1, 1e-4), (2, 1, 1.0 / 1.5e6), (3, 2, 1.0 / 1.5e5), (0, 4, 0.04), (3, 5, 0.04)],
            conditions: vec![(0b11_0000, 0.5)],
        };
        let written =
            (1..6).fold(JoinTree::Input(0), |tree, input| JoinTree::join(tree, JoinTree::Input(input)));
        (graph, written)
    }

    #[test]
    fn few_rows_are_joined_first() {
        let (graph, written) = shipping();
        let found = graph.cheapest().expect("a tree");
        assert_eq!(found.inputs(), 0b11_1111);
        assert!(graph.cost(&found) < graph.cost(&written) / 2.0, "{found:?}");
        assert!((graph.rows_of(found.inputs()) / 1.8e6 / 0.04 / 0.04 / 2.0 - 1.0).abs() < 1e-9);
    }

    /// No tree that random joins make is cheaper than what is found.
    #[test]
    fn no_tree_is_cheaper() {
        let (graph, _) = shipping();
        let found = graph.cost(&graph.cheapest().expect("a tree"));
        let mut state = 1_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % below
        };
        let mut compared = 0;
        for _ in 0..2_000 {
            let mut parts: Vec<JoinTree> = (0..6).map(JoinTree::Input).collect();
            let mut is_connected = true;
            while parts.len() > 1 {
                let left = parts.swap_remove(random(parts.len()));
                let right = parts.swap_remove(random(parts.len()));
                is_connected &= graph.is_joined(left.inputs(), right.inputs());
                parts.push(JoinTree::join(left, right));
            }
            if is_connected {
                compared += 1;
                assert!(graph.cost(&parts[0]) >= found * 0.999_999, "{parts:?}");
            }
        }
        assert!(compared > 20, "{compared}");
    }

    /// A chain of many inputs, small ones at one end: taken from there.
    #[test]
    fn many_inputs_are_joined_by_the_smallest_first() {
        let graph = JoinGraph {
            rows: (0..40).map(|input| 10.0 * 1.2_f64.powi(input)).collect(),
            edges: (1..40).map(|input| (input - 1, input, 0.1 / 1.2_f64.powi(input as i32))).collect(),
            conditions: Vec::new(),
        };
        let found = graph.cheapest().expect("a tree");
        assert_eq!(found.inputs(), (1 << 40) - 1);
        let backwards = (0..39)
            .rev()
            .fold(JoinTree::Input(39), |tree, input| JoinTree::join(tree, JoinTree::Input(input)));
        assert!(graph.cost(&found) < graph.cost(&backwards));
    }

    #[test]
    fn inputs_that_nothing_joins_make_no_tree() {
        for inputs in [3, 20] {
            let edges = (1..inputs - 1).map(|input| (input - 1, input, 0.1)).collect();
            let graph = JoinGraph { rows: vec![10.0; inputs], edges, conditions: Vec::new() };
            assert_eq!(graph.cheapest(), None);
        }
    }
}
