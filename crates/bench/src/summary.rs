//! Repeats of one figure.

/// The least, the median and the largest of repeats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// The least.
    pub min: f64,
    /// The one in the middle; of an even number, the mean of the two.
    pub median: f64,
    /// The largest.
    pub max: f64,
}

impl Summary {
    /// The summary of one figure's repeats; `None` if there is none.
    #[must_use]
    pub fn of(repeats: &[f64]) -> Option<Self> {
        let mut sorted = repeats.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        };
        Some(Self { min, median, max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let odd = Summary::of(&[3.0, 1.0, 20.0]);
        assert_eq!(odd, Some(Summary { min: 1.0, median: 3.0, max: 20.0 }));
        let even = Summary::of(&[4.0, 1.0, 2.0, 30.0]);
        assert_eq!(even, Some(Summary { min: 1.0, median: 3.0, max: 30.0 }));
        assert_eq!(Summary::of(&[]), None);
    }
}
