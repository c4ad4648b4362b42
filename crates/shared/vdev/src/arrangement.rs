//! How many leaves a vdev has, and what they hold of each other.

/// The most leaves of a vdev. It bounds the choices that a reader of damaged parity tries.
pub const LEAVES_MAX: usize = 32;

/// How the leaves of a vdev share the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arrangement {
    /// One leaf.
    Single,
    /// Every leaf has all data; there are at least two.
    Mirror,
    /// So many leaves, 1 to 3, may be lost; there are at least two more.
    Parity(u8),
}

impl Arrangement {
    /// Why so many leaves cannot be arranged so, if they cannot.
    #[must_use]
    pub fn defect(self, leaves: usize) -> Option<String> {
        let (least, most) = match self {
            Self::Single => (1, 1),
            Self::Mirror => (2, LEAVES_MAX),
            Self::Parity(parity @ 1..=3) => (usize::from(parity) + 2, LEAVES_MAX),
            Self::Parity(parity) => {
                return Some(format!("there is parity 1, 2 and 3, not {parity}"));
            }
        };
        let fits = (least..=most).contains(&leaves);
        (!fits).then(|| format!("{self} has {least} to {most} leaves, not {leaves}"))
    }
}

impl std::fmt::Display for Arrangement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Single => f.write_str("single"),
            Self::Mirror => f.write_str("mirror"),
            Self::Parity(parity) => write!(f, "parity{parity}"),
        }
    }
}
