//! Places on the earth as scores of sorted sets: cells of a grid, whose numbers are near each other where the cells are.
//!
//! The earth is halved again and again, by longitude and by latitude; after `step` halvings of each, a cell is known by
//! `2 * step` bits, of longitude and latitude in turn, longitude first. A score has 52 bits. The cells of fewer steps are
//! ranges of scores: a search looks at the cell of about the size of its area that has its center, and at the eight cells
//! around it.

use std::f64::consts::PI;

/// Halvings of each coordinate in a score.
pub(crate) const STEP_MAX: u32 = 26;

const LONGITUDE_MAX: f64 = 180.0;
/// Where the map of the earth that the web uses ends.
const LATITUDE_MAX: f64 = 85.051_128_78;

const EARTH_RADIUS: f64 = 6_372_797.560_856;
/// Half of the earth's circumference on that map.
const MERCATOR_MAX: f64 = 20_037_726.37;

/// A place, in degrees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Place {
    pub(crate) longitude: f64,
    pub(crate) latitude: f64,
}

impl Place {
    /// Whether it can be a score.
    pub(crate) fn is_valid(self) -> bool {
        (-LONGITUDE_MAX..=LONGITUDE_MAX).contains(&self.longitude)
            && (-LATITUDE_MAX..=LATITUDE_MAX).contains(&self.latitude)
    }

    /// The score of the place.
    pub(crate) fn score(self) -> f64 {
        self.cell(STEP_MAX).bits() as f64
    }

    /// The middle of a score's cell.
    pub(crate) fn of_score(score: f64) -> Self {
        // A negative score, which is none of a place, is read as Redis reads it: its bits wrap around.
        let bits = if score < 0.0 { score as i64 as u64 } else { score as u64 };
        let (west, east, south, north) = Cell::of_bits(bits, STEP_MAX).edges();
        Self {
            longitude: f64::midpoint(west, east).clamp(-LONGITUDE_MAX, LONGITUDE_MAX),
            latitude: f64::midpoint(south, north).clamp(-LATITUDE_MAX, LATITUDE_MAX),
        }
    }

    /// The cell that has the place.
    fn cell(self, step: u32) -> Cell {
        let part = |at: f64, max: f64| ((at + max) / (2.0 * max) * f64::from(1_u32 << step)) as u32;
        Cell { x: part(self.longitude, LONGITUDE_MAX), y: part(self.latitude, LATITUDE_MAX), step }
    }

    /// The distance to another place, in meters, along the surface of a sphere.
    pub(crate) fn distance(self, other: Self) -> f64 {
        let v = ((radians(other.longitude) - radians(self.longitude)) / 2.0).sin();
        if v == 0.0 {
            return self.distance_of_latitudes(other);
        }
        let (from, to) = (radians(self.latitude), radians(other.latitude));
        let u = ((to - from) / 2.0).sin();
        let a = u * u + from.cos() * to.cos() * v * v;
        2.0 * EARTH_RADIUS * a.sqrt().asin()
    }

    fn distance_of_latitudes(self, other: Self) -> f64 {
        EARTH_RADIUS * (radians(other.latitude) - radians(self.latitude)).abs()
    }

    /// The text of 11 letters by which other programs know a score's cell. The bits of one letter are missing: it is the
    /// first of the alphabet.
    pub(crate) fn text(self) -> [u8; 11] {
        const LETTERS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        // The cells of those programs reach to the poles.
        let parts = f64::from(1_u32 << STEP_MAX);
        let cell = Cell {
            x: ((self.longitude + 180.0) / 360.0 * parts) as u32,
            y: ((self.latitude + 90.0) / 180.0 * parts) as u32,
            step: STEP_MAX,
        };
        let bits = cell.bits();
        std::array::from_fn(|nth| match nth {
            10 => LETTERS[0],
            nth => LETTERS[(bits >> (52 - (nth + 1) * 5) & 31) as usize],
        })
    }
}

fn radians(degrees: f64) -> f64 {
    degrees * (PI / 180.0)
}

fn degrees(radians: f64) -> f64 {
    radians / (PI / 180.0)
}

/// A cell of the grid of some step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cell {
    /// The number of the column, from the west.
    x: u32,
    /// The number of the row, from the south.
    y: u32,
    step: u32,
}

impl Cell {
    fn of_bits(bits: u64, step: u32) -> Self {
        Self { x: gather(bits >> 1), y: gather(bits), step }
    }

    fn bits(self) -> u64 {
        spread(self.x) << 1 | spread(self.y)
    }

    /// Its western, eastern, southern and northern edges.
    fn edges(self) -> (f64, f64, f64, f64) {
        let parts = (1_u64 << self.step) as f64;
        let edge = |number: u32, max: f64| -max + f64::from(number) / parts * (2.0 * max);
        (
            edge(self.x, LONGITUDE_MAX),
            edge(self.x + 1, LONGITUDE_MAX),
            edge(self.y, LATITUDE_MAX),
            edge(self.y + 1, LATITUDE_MAX),
        )
    }

    /// The cell so many columns to the east and rows to the north; the grid begins anew at its ends. A place at the very
    /// end of the map is in a cell beyond it, as in Redis.
    fn beside(self, east: i32, north: i32) -> Self {
        let mask = (1_u32 << self.step) - 1;
        let moved = |number: u32, by: i32| match by {
            0 => number,
            by => number.wrapping_add_signed(by) & mask,
        };
        Self { x: moved(self.x, east), y: moved(self.y, north), step: self.step }
    }

    /// The scores of the places in it: from the first one on, up to the second one.
    fn scores(self) -> (f64, f64) {
        let shift = 2 * (STEP_MAX - self.step);
        let bits = self.bits();
        ((bits << shift) as f64, ((bits + 1) << shift) as f64)
    }
}

/// Puts a zero before each bit.
fn spread(number: u32) -> u64 {
    let mut bits = u64::from(number);
    for (shift, mask) in [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ] {
        bits = (bits | bits << shift) & mask;
    }
    bits
}

/// Takes every second bit, from the lowest on.
fn gather(bits: u64) -> u32 {
    let mut bits = bits & 0x5555_5555_5555_5555;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ] {
        bits = (bits | bits >> shift) & mask;
    }
    bits as u32
}

/// An area around a place, in meters.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    Circle { radius: f64 },
    Box { width: f64, height: f64 },
}

/// An area that is searched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Area {
    pub(crate) center: Place,
    pub(crate) shape: Shape,
}

impl Area {
    /// The distance of a place from the center, if it is in the area.
    pub(crate) fn distance_within(&self, place: Place) -> Option<f64> {
        let center = self.center;
        match self.shape {
            Shape::Circle { radius } => {
                let distance = center.distance(place);
                (distance <= radius).then_some(distance)
            }
            Shape::Box { width, height } => {
                let across = Place { longitude: center.longitude, ..place };
                let is_within = place.distance_of_latitudes(center) <= height / 2.0
                    && place.distance(across) <= width / 2.0;
                is_within.then(|| center.distance(place))
            }
        }
    }

    /// The ranges of scores that the area may have, in the order in which they are searched.
    pub(crate) fn scores(&self) -> Vec<(f64, f64)> {
        let (west, east, south, north) = self.bounds();
        let mut step = self.step();
        let mut cell = self.center.cell(step);
        let reaches = |cell: Cell| {
            cell.beside(0, 1).edges().3 >= north
                && cell.beside(0, -1).edges().2 <= south
                && cell.beside(1, 0).edges().1 >= east
                && cell.beside(-1, 0).edges().0 <= west
        };
        if step > 1 && !reaches(cell) {
            step -= 1;
            cell = self.center.cell(step);
        }
        let edges = cell.edges();
        let mut scores = Vec::new();
        let mut last = None;
        for (nth, (x, y)) in AROUND.into_iter().enumerate() {
            let is_useless = step >= 2
                && (edges.2 < south && y < 0
                    || edges.3 > north && y > 0
                    || edges.0 < west && x < 0
                    || edges.1 > east && x > 0);
            let beside = cell.beside(x, y);
            // Of a few large cells, some are beside the center in several directions.
            if is_useless || last == Some(beside) {
                continue;
            }
            scores.push(beside.scores());
            last = (nth > 0).then_some(beside);
        }
        scores
    }

    /// The western, eastern, southern and northern ends of the area, about.
    fn bounds(&self) -> (f64, f64, f64, f64) {
        let (width, height) = match self.shape {
            Shape::Circle { radius } => (radius, radius),
            Shape::Box { width, height } => (width / 2.0, height / 2.0),
        };
        let Place { longitude, latitude } = self.center;
        let north = degrees(height / EARTH_RADIUS);
        // The parallel on that side of the area which is nearer to a pole is the shorter one.
        let nearer = if latitude < 0.0 { latitude - north } else { latitude + north };
        let east = degrees(width / EARTH_RADIUS / radians(nearer).cos());
        (longitude - east, longitude + east, latitude - north, latitude + north)
    }

    /// The step whose cells are about as large as the area.
    fn step(&self) -> u32 {
        let mut range = match self.shape {
            Shape::Circle { radius } => radius,
            Shape::Box { width, height } => {
                (width / 2.0 * (width / 2.0) + height / 2.0 * (height / 2.0)).sqrt()
            }
        };
        if range == 0.0 {
            return STEP_MAX;
        }
        let mut step = 1;
        while range < MERCATOR_MAX {
            range *= 2.0;
            step += 1;
        }
        // The area has to be within the nine cells; towards the poles they are narrower.
        step -= 2;
        let latitude = self.center.latitude.abs();
        step -= i32::from(latitude > 66.0) + i32::from(latitude > 80.0);
        step.clamp(1, STEP_MAX as i32) as u32
    }
}

/// The center and what is around it: columns to the east, and rows to the north.
const AROUND: [(i32, i32); 9] =
    [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn place() -> impl Strategy<Value = Place> {
        (-180.0..=180.0, -85.05..=85.05)
            .prop_map(|(longitude, latitude)| Place { longitude, latitude })
    }

    proptest! {
        #[test]
        fn bits_are_spread_and_gathered(x: u32, y: u32) {
            let (x, y) = (x >> 6, y >> 6);
            let cell = Cell { x, y, step: STEP_MAX };
            prop_assert_eq!(Cell::of_bits(cell.bits(), STEP_MAX), cell);
            for bit in 0..26 {
                prop_assert_eq!(cell.bits() >> (2 * bit + 1) & 1, u64::from(x >> bit & 1));
                prop_assert_eq!(cell.bits() >> (2 * bit) & 1, u64::from(y >> bit & 1));
            }
        }

        #[test]
        fn a_score_is_near_its_place(place in place()) {
            let near = Place::of_score(place.score());
            prop_assert!(place.distance(near) < 0.7, "{near:?}");
            prop_assert_eq!(near.score(), place.score());
        }

        #[test]
        fn an_area_is_within_its_ranges_of_scores(
            center in place(), part in (-1.0..1.0, -1.0..1.0), size in 1.0..5_000_000.0, is_box: bool,
        ) {
            // Places beyond the poles or the ends of the map are not searched from here.
            let shape = match is_box {
                true => Shape::Box { width: size, height: size / 2.0 },
                false => Shape::Circle { radius: size },
            };
            let area = Area { center, shape };
            let (west, east, south, north) = area.bounds();
            prop_assume!(west > -180.0 && east < 180.0 && south > -85.0 && north < 85.0);
            let at = |middle: f64, low: f64, high: f64, part: f64| middle + (high - low) / 2.0 * part;
            let place = Place {
                longitude: at(center.longitude, west, east, part.0),
                latitude: at(center.latitude, south, north, part.1),
            };
            if area.distance_within(place).is_some() {
                let score = place.score();
                let ranges = area.scores();
                prop_assert!(ranges.iter().any(|(from, to)| (*from..*to).contains(&score)));
            }
        }
    }

    #[test]
    fn known_places_have_known_scores_and_texts() {
        let palermo = Place { longitude: 13.361389, latitude: 38.115556 };
        let catania = Place { longitude: 15.087269, latitude: 37.502669 };
        assert_eq!(palermo.score(), 3_479_099_956_230_698.0);
        assert_eq!(catania.score(), 3_479_447_370_796_909.0);
        let stored = [palermo, catania].map(|place| Place::of_score(place.score()));
        assert_eq!(format!("{:.4}", stored[0].distance(stored[1])), "166274.1516");
        assert_eq!(&stored[0].text(), b"sqc8b49rny0");
        assert_eq!(&stored[1].text(), b"sqdtr74hyu0");
    }
}
