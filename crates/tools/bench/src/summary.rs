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
    /// The summary of one figure's repeats; `None` without repeats.
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

/// The standard deviation of a sample; `None` of fewer than two.
pub(crate) fn deviation(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
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

    #[test]
    fn the_deviation_is_that_of_a_sample() {
        assert_eq!(
            deviation(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]),
            Some((32.0_f64 / 7.0).sqrt())
        );
        assert_eq!(deviation(&[1.0]), None);
    }
}
