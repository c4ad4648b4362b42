//! Where a value lies on an axis, and which values are ticks.

/// Values that charts can show; the others are in the tables only.
pub(crate) fn drawable(value: f64) -> bool {
    value.is_finite() && value.abs() < 1e30
}

/// Logarithmic axes show values above this one.
const LOG_LEAST: f64 = 1e-30;

/// How values are spread over an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Evenly.
    Linear,
    /// Evenly, with ticks at multiples of a power of two.
    LinearBinary,
    /// By their logarithm, with ticks at 1, 2 and 5 times powers of ten.
    Log10,
    /// By their logarithm, with ticks at powers of two.
    Log2,
}

/// An axis: values from `low` to `high`, coordinates from `from` to `to`.
#[derive(Debug, Clone)]
pub(crate) struct Scale {
    kind: Kind,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    ticks: Vec<f64>,
}

impl Kind {
    fn is_linear(self) -> bool {
        matches!(self, Self::Linear | Self::LinearBinary)
    }
}

impl Scale {
    /// An axis that holds all `values`, with about `count` ticks at most. A linear one ends at ticks,
    /// if `round`.
    pub(crate) fn new(kind: Kind, values: &[f64], round: bool, count: usize) -> Self {
        let values = values.iter().copied().filter(|&value| drawable(value));
        let positive = |value: &f64| kind.is_linear() || *value > LOG_LEAST;
        let (mut low, mut high) = values
            .filter(positive)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
        if low > high {
            (low, high) = if kind.is_linear() { (0.0, 1.0) } else { (1.0, 10.0) };
        }
        let ticks = match kind {
            Kind::Linear => linear(&mut low, &mut high, round, count, &[1.0, 2.0, 2.5, 5.0], 10.0),
            Kind::LinearBinary => linear(&mut low, &mut high, round, count, &[1.0], 2.0),
            Kind::Log10 => log10(&mut low, &mut high, count),
            Kind::Log2 => log2(&mut low, &mut high, count),
        };
        Self { kind, low, high, from: 0.0, to: 1.0, ticks }
    }

    /// Returns the same axis over other coordinates.
    pub(crate) fn over(&self, from: f64, to: f64) -> Self {
        Self { from, to, ..self.clone() }
    }

    /// The coordinate of a value, if the axis can show it.
    pub(crate) fn at(&self, value: f64) -> Option<f64> {
        if !drawable(value) || (!self.kind.is_linear() && value <= LOG_LEAST) {
            return None;
        }
        let part = match self.kind {
            Kind::Linear | Kind::LinearBinary => (value - self.low) / (self.high - self.low),
            Kind::Log10 | Kind::Log2 => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        (part > -0.001 && part < 1.001).then_some(self.from + part * (self.to - self.from))
    }

    /// Whether values are spread by their logarithm.
    pub(crate) fn is_log(&self) -> bool {
        !self.kind.is_linear()
    }

    /// The coordinate at which the axis begins.
    pub(crate) fn from(&self) -> f64 {
        self.from
    }

    /// The ticks.
    pub(crate) fn ticks(&self) -> &[f64] {
        &self.ticks
    }
}

/// Ticks at a power of `base` times one of `steps`; whole numbers where both ends are and the axis may
/// end between ticks.
fn linear(
    low: &mut f64,
    high: &mut f64,
    round: bool,
    count: usize,
    steps: &[f64],
    base: f64,
) -> Vec<f64> {
    let whole = !round && low.fract() == 0.0 && high.fract() == 0.0;
    if *high - *low < 1e-12 * high.abs().max(1e-12) {
        let half = (high.abs() * 0.5).max(0.5);
        (*low, *high) = (*low - half, *high + half);
    }
    let mut rough = (*high - *low) / count.max(1) as f64;
    if whole {
        rough = rough.max(1.0);
    }
    let power = base.powf((rough.ln() / base.ln() + 1e-9).floor());
    let step = steps
        .iter()
        .map(|times| times * power)
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(base * power);
    if round {
        (*low, *high) = ((*low / step).floor() * step, (*high / step).ceil() * step);
    }
    let first = (*low / step - 1e-6).ceil();
    (0..=count + 2)
        .map(|i| (first + i as f64) * step)
        .take_while(|tick| *tick <= *high + step * 1e-6)
        .collect()
}

fn log10(low: &mut f64, high: &mut f64, count: usize) -> Vec<f64> {
    let marks = |low: f64, high: f64, times: &[f64]| -> Vec<f64> {
        let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        let mut marks = Vec::new();
        for exponent in first..=last {
            marks.extend(times.iter().map(|times| times * 10f64.powi(exponent)));
        }
        marks
    };
    let fine = marks(*low, *high, &[1.0, 2.0, 5.0]);
    *low = fine.iter().copied().rfind(|mark| *mark <= *low * 1.0001).unwrap_or(*low);
    *high = fine.iter().copied().find(|mark| *mark >= *high * 0.9999).unwrap_or(*high);
    if *high <= *low {
        *high = *low * 10.0;
    }
    let within = |mark: &f64| *mark >= *low * 0.999 && *mark <= *high * 1.001;
    let kept = |times: &[f64]| -> Vec<f64> {
        marks(*low, *high, times).into_iter().filter(within).collect()
    };
    for times in [&[1.0, 2.0, 5.0][..], &[1.0, 3.0]] {
        let ticks = kept(times);
        if ticks.len() <= count + 3 {
            return ticks;
        }
    }
    let decades = kept(&[1.0]);
    let stride = decades.len().div_ceil(count.max(1) + 1);
    decades.into_iter().step_by(stride).collect()
}

fn log2(low: &mut f64, high: &mut f64, count: usize) -> Vec<f64> {
    if *high < *low * 1.001 {
        (*low, *high) = (*low / 2.0, *high * 2.0);
    }
    let (first, last) = (low.log2().ceil() as i32, high.log2().floor() as i32);
    if first > last {
        return vec![*low, *high];
    }
    let stride = ((last - first) as usize + 1).div_ceil(count.max(1));
    (first..=last).step_by(stride).map(|exponent| 2f64.powi(exponent)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers() {
        let scale = Scale::new(Kind::Linear, &[0.0, 3.7e6], true, 5);
        assert_eq!(scale.ticks(), [0.0, 1e6, 2e6, 3e6, 4e6]);
        let scale = Scale::new(Kind::Log2, &[64.0, 4096.0], false, 4);
        assert_eq!(scale.ticks(), [64.0, 256.0, 1024.0, 4096.0]);
        let scale = Scale::new(Kind::Log10, &[3.0, 4e6], false, 5);
        assert_eq!(scale.ticks(), [1e1, 1e2, 1e3, 1e4, 1e5, 1e6]);
    }

    #[test]
    fn every_axis_has_an_extent() {
        for kind in [Kind::Linear, Kind::LinearBinary, Kind::Log10, Kind::Log2] {
            for values in [&[][..], &[0.0], &[7.0, 7.0], &[-1e29, 1e29], &[1e-320, 1e-319], &[-3.0]]
            {
                let scale = Scale::new(kind, values, true, 5).over(10.0, 20.0);
                assert!(scale.ticks().len() < 20, "{kind:?} {values:?}: {:?}", scale.ticks());
                for &value in values {
                    let at = scale.at(value);
                    assert!(
                        at.is_none_or(|at| (9.9..=20.1).contains(&at)),
                        "{kind:?} {value} {at:?}"
                    );
                    assert!(at.is_some() || !kind.is_linear(), "{kind:?} {value}");
                }
            }
        }
    }
}
