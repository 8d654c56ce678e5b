//! The cheapest order of joins, by numbers alone.
//!
//! Sets of inputs are masks: bit `i` is input `i`. How many rows a set joins to does not depend on the order; what is paid on the way
//! does. Up to [`EXHAUSTIVE_MAX`] inputs all trees without cross products are compared (dynamic programming over sets, as in Selinger's
//! optimizer, with bushy trees); beyond, the two parts whose join is smallest are joined again and again.

/// As many inputs are ordered at most; a tree of more stays as it is.
pub(super) const INPUTS_MAX: usize = 64;
/// As many inputs as all trees are compared for: 3^10 splits take a third of a millisecond.
pub(super) const EXHAUSTIVE_MAX: usize = 10;

/// What a row of the smaller side costs, which goes into a table, by one that is looked up there or comes out.
const BUILD_COST: f64 = 2.0;
/// What a row of an input costs that is read, and left out where no join asks for it.
const READ_COST: f64 = 0.1;

/// A set of inputs.
pub(super) type Inputs = u64;

/// A pair of inputs that are joined by keys.
#[derive(Clone, Debug)]
pub(super) struct JoinEdge {
    pub(super) inputs: (usize, usize),
    /// The share of their pairs of rows that have the same.
    pub(super) share: f64,
    /// The classes of equal keys that theirs belong to, a bit each.
    pub(super) classes: u64,
    /// Whether others of its class say it.
    pub(super) is_implied: bool,
    /// How many rows on the other side may have the keys for which a scan of each input is asked; 0 where none is.
    pub(super) asked_by: (f64, f64),
}

impl JoinEdge {
    fn is_within(&self, set: Inputs) -> bool {
        set >> self.inputs.0 & 1 != 0 && set >> self.inputs.1 & 1 != 0
    }

    /// The input of the other side whose scan is asked, and by how many rows of this side at most, if it leads from one to the other.
    fn asked(&self, by: Inputs, of: Inputs) -> Option<(usize, f64)> {
        let (one, other) = self.inputs;
        let leads = |from: usize, to: usize| by >> from & 1 != 0 && of >> to & 1 != 0;
        match () {
            () if leads(one, other) => Some((other, self.asked_by.1)),
            () if leads(other, one) => Some((one, self.asked_by.0)),
            () => None,
        }
    }
}

/// What is known of a join of many inputs.
#[derive(Debug, Default)]
pub(super) struct JoinGraph {
    /// The rows of each input.
    pub(super) rows: Vec<f64>,
    /// Those that are implied come last, and of them first the ones of the largest shares.
    pub(super) edges: Vec<JoinEdge>,
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
        let keys = self.edges.iter().filter(|edge| edge.is_within(of) && !edge.is_implied);
        let keys = keys.map(|edge| edge.share).chain([self.share_of_implied(of)]);
        let conditions =
            self.conditions.iter().filter(|(looked, _)| looked & !of == 0).map(|(_, share)| *share);
        inputs.chain(keys).chain(conditions).product::<f64>().max(1.0)
    }

    /// The share of rows that have the same keys by what is implied alone: between inputs of a class that the written keys in the set
    /// do not connect.
    fn share_of_implied(&self, of: Inputs) -> f64 {
        let mut implied = self.edges.iter().filter(|edge| edge.is_within(of) && edge.is_implied).peekable();
        if implied.peek().is_none() {
            return 1.0;
        }
        // Inputs whose keys of a class are equal.
        let mut connected: Vec<(u64, Inputs)> = Vec::new();
        let mut connect = |edge: &JoinEdge, class: u64| {
            let mut both: Inputs = 1 << edge.inputs.0 | 1 << edge.inputs.1;
            if connected.iter().any(|&(of, part)| of == class && part & both == both) {
                return false;
            }
            connected.retain(|&(of, part)| {
                let is_met = of == class && part & both != 0;
                both |= if is_met { part } else { 0 };
                !is_met
            });
            connected.push((class, both));
            true
        };
        let mut connects = |edge: &JoinEdge| {
            let classes = (0..u64::BITS).map(|class| 1 << class).filter(|class| edge.classes & class != 0);
            classes.filter(|&class| connect(edge, class)).count() > 0
        };
        for written in self.edges.iter().filter(|edge| edge.is_within(of) && !edge.is_implied) {
            connects(written);
        }
        implied.filter(|edge| connects(edge)).map(|edge| edge.share).product()
    }

    /// The inputs that each is joined with.
    fn neighbours(&self) -> Vec<Inputs> {
        let mut neighbours = vec![0; self.rows.len()];
        for &JoinEdge { inputs: (one, other), .. } in &self.edges {
            neighbours[one] |= 1 << other;
            neighbours[other] |= 1 << one;
        }
        neighbours
    }

    /// What a tree costs where no filter leaves rows out.
    pub(super) fn cost(&self, tree: &JoinTree) -> f64 {
        match tree {
            JoinTree::Input(_) => 0.0,
            JoinTree::Join(left, right) => {
                let (few, many) = (self.rows_of(left.inputs()), self.rows_of(right.inputs()));
                self.cost(left) + self.cost(right) + join_cost(few, many, self.rows_of(tree.inputs()))
            }
        }
    }

    /// What a tree costs where the keys of each join's smaller side leave out rows of scans on the other side, as they do when the query
    /// runs (`docs/design/join-filters.md`).
    pub(super) fn cost_with_filters(&self, tree: &JoinTree) -> f64 {
        self.cost_of_rest(tree, &vec![1.0; self.rows.len()])
    }

    /// [`cost_with_filters`](Self::cost_with_filters) where joins above have left this share of each input's rows.
    fn cost_of_rest(&self, tree: &JoinTree, left: &[f64]) -> f64 {
        let (one, other) = match tree {
            JoinTree::Input(input) => return READ_COST * self.rows[*input],
            JoinTree::Join(one, other) => (one.as_ref(), other.as_ref()),
        };
        let rows_of = |tree: &JoinTree, left: &[f64]| {
            let inputs = tree.inputs();
            let shares = left.iter().enumerate().filter(|(input, _)| inputs >> input & 1 != 0);
            (self.rows_of(inputs) * shares.map(|(_, share)| share).product::<f64>()).max(1.0)
        };
        let (built, looked_up) =
            if rows_of(one, left) <= rows_of(other, left) { (one, other) } else { (other, one) };
        let rows_built = rows_of(built, left);
        let (mut asked, mut classes) = (left.to_vec(), 0);
        for edge in &self.edges {
            let Some((input, most)) = edge.asked(built.inputs(), looked_up.inputs()) else { continue };
            // Of a class one pair of keys is enough.
            if edge.classes & classes == 0 && rows_built <= most {
                asked[input] *= (edge.share * rows_built).min(1.0);
                classes |= edge.classes;
            }
        }
        let below = self.cost_of_rest(built, left) + self.cost_of_rest(looked_up, &asked);
        below + join_cost(rows_built, rows_of(looked_up, &asked), rows_of(tree, left))
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
        let neighbours = self.neighbours();
        // Of the sets that were looked at.
        let mut joined: Vec<Inputs> = vec![0; all as usize + 1];
        let mut best: Vec<Option<Costed>> = vec![None; all as usize + 1];
        for set in 1..=all {
            joined[set as usize] =
                joined[(set & (set - 1)) as usize] | neighbours[set.trailing_zeros() as usize];
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
                    && joined[left as usize] & right != 0
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
        let neighbours = self.neighbours();
        let is_joined = |left: Inputs, right: Inputs| {
            neighbours.iter().enumerate().any(|(input, joined)| left >> input & 1 != 0 && joined & right != 0)
        };
        let mut parts: Vec<Costed> = (0..self.rows.len()).map(|input| self.input(input)).collect();
        while parts.len() > 1 {
            let mut smallest: Option<(usize, usize, Costed)> = None;
            for right in 1..parts.len() {
                for left in 0..right {
                    if !is_joined(parts[left].tree.inputs(), parts[right].tree.inputs()) {
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

    fn edge((one, other, share): (usize, usize, f64)) -> JoinEdge {
        JoinEdge { inputs: (one, other), share, classes: 0, is_implied: false, asked_by: (0.0, 0.0) }
    }

    fn edges<const EDGES: usize>(edges: [(usize, usize, f64); EDGES]) -> Vec<JoinEdge> {
        edges.map(edge).into()
    }

    /// TPC-H Q7 as it is written: supplier, lineitem, orders, customer, and two nations, of which two are wanted.
    fn shipping() -> (JoinGraph, JoinTree) {
        let graph = JoinGraph {
            rows: vec![1e4, 1.8e6, 1.5e6, 1.5e5, 2.0, 2.0],
            edges: edges([
                (0, 1, 1e-4),
                (2, 1, 1.0 / 1.5e6),
                (3, 2, 1.0 / 1.5e5),
                (0, 4, 0.04),
                (3, 5, 0.04),
            ]),
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
        let neighbours = graph.neighbours();
        let is_joined =
            |one: Inputs, other: Inputs| (0..6).any(|at| one >> at & 1 != 0 && neighbours[at] & other != 0);
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
                is_connected &= is_joined(left.inputs(), right.inputs());
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
            edges: (1..40).map(|input| edge((input - 1, input, 0.1 / 1.2_f64.powi(input as i32)))).collect(),
            conditions: Vec::new(),
        };
        let found = graph.cheapest().expect("a tree");
        assert_eq!(found.inputs(), (1 << 40) - 1);
        let backwards = (0..39)
            .rev()
            .fold(JoinTree::Input(39), |tree, input| JoinTree::join(tree, JoinTree::Input(input)));
        assert!(graph.cost(&found) < graph.cost(&backwards));
    }

    /// TPC-H Q5: customer, orders of a year, lineitem, supplier, nation, and one region. Only what scans are asked for tells the two apart: without,
    /// reading all of lineitem is most of either.
    #[test]
    fn what_scans_leave_out_is_not_paid_for() {
        let asked = |mut edge: JoinEdge, asked_by: (f64, f64)| {
            edge.asked_by = asked_by;
            edge
        };
        let graph = JoinGraph {
            rows: vec![1.5e5, 2.3e5, 6e6, 1e4, 25.0, 1.0],
            edges: vec![
                asked(edge((0, 1, 1.0 / 1.5e5)), (1.9e4, 1.9e5)),
                asked(edge((1, 2, 1.0 / 1.5e6)), (1.9e5, 7.5e5)),
                asked(edge((3, 2, 1e-4)), (0.0, 7.5e5)),
                asked(edge((0, 3, 0.04)), (1.9e4, 0.0)),
                edge((3, 4, 0.04)),
                edge((4, 5, 0.2)),
            ],
            conditions: Vec::new(),
        };
        let join = JoinTree::join;
        let input = JoinTree::Input;
        let written = (1..6).fold(input(0), |tree, next| join(tree, input(next)));
        let few = join(join(input(5), input(4)), input(3));
        let many = join(join(input(0), input(1)), input(2));
        let filtered = join(few, many);
        assert!(graph.cost(&filtered) > 0.8 * graph.cost(&written));
        assert!(graph.cost_with_filters(&filtered) < 0.6 * graph.cost_with_filters(&written));
        let found = graph.cheapest().expect("a tree");
        assert!(graph.cost(&found) <= graph.cost(&filtered));
        assert!(graph.cost_with_filters(&found) < 0.6 * graph.cost_with_filters(&written));
        // Where there are too many keys to be gathered, nothing is left out.
        let unasked = JoinGraph {
            edges: graph.edges.iter().map(|of| asked(of.clone(), (0.0, 0.0))).collect(),
            ..graph
        };
        let more = unasked.cost_with_filters(&written) - unasked.cost(&written);
        assert!((more / READ_COST / unasked.rows.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }

    /// `a = b`, `b = c` and so `a = c`: what is implied counts where the written keys do not connect two inputs, once.
    #[test]
    fn implied_keys_count_where_no_written_ones_do() {
        let key =
            |one, other, share, is_implied| JoinEdge { classes: 1, is_implied, ..edge((one, other, share)) };
        let graph = JoinGraph {
            rows: vec![100.0; 4],
            edges: vec![
                key(0, 1, 0.1, false),
                key(1, 2, 0.2, false),
                key(1, 3, 0.05, false),
                key(0, 2, 0.25, true),
                key(0, 3, 0.03, true),
                key(2, 3, 0.02, true),
            ],
            conditions: Vec::new(),
        };
        for (set, share) in [
            (0b0111_u64, 0.1 * 0.2),
            (0b1111, 0.1 * 0.2 * 0.05),
            (0b0101, 0.25),
            (0b1101, 0.25 * 0.03),
            (0b1100, 0.02),
            (0b1110, 0.2 * 0.05),
        ] {
            let rows = 100_f64.powi(set.count_ones() as i32);
            assert!((graph.rows_of(set) / (rows * share).max(1.0) - 1.0).abs() < 1e-9, "{set:b}");
        }
    }

    /// `a = b`, `b = c` and so `a = c`: scans of `c` are asked for what either says, which is the same.
    #[test]
    fn keys_of_a_class_leave_rows_out_once() {
        let key = |one, other, classes, is_implied| JoinEdge {
            classes,
            is_implied,
            asked_by: (0.0, 1e3),
            ..edge((one, other, 1e-4))
        };
        let mut graph = JoinGraph {
            rows: vec![50.0, 60.0, 1e6],
            edges: vec![key(0, 1, 1, false), key(1, 2, 1, false)],
            conditions: Vec::new(),
        };
        let few = JoinTree::join(JoinTree::Input(0), JoinTree::Input(1));
        let tree = JoinTree::join(few, JoinTree::Input(2));
        let by_one = graph.cost_with_filters(&tree);
        graph.edges.push(key(0, 2, 1, true));
        assert_eq!(graph.cost_with_filters(&tree), by_one);
        graph.edges[2] = key(0, 2, 2, false);
        assert!(graph.cost_with_filters(&tree) < by_one, "another key leaves out more");
    }

    #[test]
    fn inputs_that_nothing_joins_make_no_tree() {
        for inputs in [3, 20] {
            let edges = (1..inputs - 1).map(|input| edge((input - 1, input, 0.1))).collect();
            let graph = JoinGraph { rows: vec![10.0; inputs], edges, conditions: Vec::new() };
            assert_eq!(graph.cheapest(), None);
        }
    }
}
