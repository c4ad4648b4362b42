//! The source's cost model: the bytes that an operation writes to memory, to the log and to the table, by method ("Cost
//! model" below each engine).
//!
//! ```text
//!  T tuple   F fixed columns that change   V variable ones   p pointer   e small   B node   z compaction (theta)
//!
//!             insertion                 update                        deletion
//!             memory  log  table        memory   log      table       memory  log  table
//!  inp        T       T    T            F+V      2(F+V)   F+V         e       T    e
//!  nvm-inp    T       p    p            F+V+p    F+p      0           e       p    e
//!  cow        B+T     0    B+T          B+F+V    0        B+F+V       B+e     0    B+e
//!  nvm-cow    T       0    B+p          T+F+V    0        B+p         e       0    B+e
//!  log        T       T    zT           F+V      2(F+V)   z(F+V)      e       T    e
//!  nvm-log    T       p    p            F+V+p    F+p      0           e       p    e
//! ```
//!
//! The nodes of the copy-on-write methods are those that no change of the group has copied before. For an e the formula is
//! an upper bound: a line. docs/BENCH.md names the cells that our methods miss by more than a tenth, with the reasons.

use halite_table::Kind;

/// What is done to a tuple.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Insert,
    Update,
    Delete,
}

/// Where bytes are written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Memory,
    Log,
    Table,
}

impl Operation {
    pub(super) const ALL: [Self; 3] = [Self::Insert, Self::Update, Self::Delete];

    pub(super) const fn name(self) -> &'static str {
        ["insert", "update", "delete"][self as usize]
    }
}

impl Place {
    pub(super) const ALL: [Self; 3] = [Self::Memory, Self::Log, Self::Table];

    pub(super) const fn name(self) -> &'static str {
        ["memory", "log", "table"][self as usize]
    }
}

/// The quantities of the formulas in bytes; theta is a factor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quantities {
    pub(super) tuple: f64,
    /// F and V together: no formula has V alone.
    pub(super) changed: f64,
    /// F.
    pub(super) fixed: f64,
    pub(super) node: f64,
    pub(super) theta: f64,
}

/// Bytes of a pointer.
const POINTER: f64 = 8.0;

/// The bound of "a small fixed size": a line.
const SMALL: f64 = 64.0;

/// The bytes of a formula.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Bytes {
    About(f64),
    AtMost(f64),
}

impl Bytes {
    pub(super) fn value(self) -> f64 {
        let (Self::About(value) | Self::AtMost(value)) = self;
        value
    }

    /// Whether measured bytes are within a tenth of the formula.
    pub(super) fn holds(self, measured: f64) -> bool {
        match self {
            Self::About(value) => (measured - value).abs() <= value / 10.0,
            Self::AtMost(value) => measured <= value * 1.1,
        }
    }
}

/// The formula of a cell.
pub(super) fn formula(
    kind: Kind,
    operation: Operation,
    place: Place,
    of: &Quantities,
) -> Option<Bytes> {
    use Bytes::{About, AtMost};
    let Quantities { tuple: t, changed: fv, fixed: f, node: b, theta: z } = *of;
    let (p, e) = (POINTER, SMALL);
    let cells = match (kind.name(), operation) {
        ("inp", Operation::Insert) => [About(t), About(t), About(t)],
        ("inp", Operation::Update) => [About(fv), About(2.0 * fv), About(fv)],
        ("inp" | "log", Operation::Delete) => [AtMost(e), About(t), AtMost(e)],
        ("nvm-inp" | "nvm-log", Operation::Insert) => [About(t), About(p), About(p)],
        ("nvm-inp" | "nvm-log", Operation::Update) => [About(fv + p), About(f + p), About(0.0)],
        ("nvm-inp" | "nvm-log", Operation::Delete) => [AtMost(e), About(p), AtMost(e)],
        ("cow", Operation::Insert) => [About(b + t), About(0.0), About(b + t)],
        ("cow", Operation::Update) => [About(b + fv), About(0.0), About(b + fv)],
        ("cow", Operation::Delete) => [About(b + e), About(0.0), About(b + e)],
        ("nvm-cow", Operation::Insert) => [About(t), About(0.0), About(b + p)],
        ("nvm-cow", Operation::Update) => [About(t + fv), About(0.0), About(b + p)],
        ("nvm-cow", Operation::Delete) => [AtMost(e), About(0.0), About(b + e)],
        ("log", Operation::Insert) => [About(t), About(t), About(z * t)],
        ("log", Operation::Update) => [About(fv), About(2.0 * fv), About(z * fv)],
        _ => return None,
    };
    Some(cells[place as usize])
}
