//! The write amplification of greedy collection, by theory.
//!
//! Space for `T` records holds `U` live ones, the fill is a = U / T, and updates meet all live records
//! alike. While the log goes once through all space, it takes `T` records; a part `u` of them are moves
//! of the collector, so `T (1 - u)` are updates. A record that was written into a block is still live
//! when the block's turn comes if none of these met it: `u = (1 - 1/U)^(T (1 - u))`, which for many
//! records is the fixed point
//!
//! ```text
//! u = exp(-(1 - u) / a)
//! ```
//!
//! and each update writes `1 / (1 - u)` records, itself included. That is collection in the order of
//! writing (Menon, "A performance comparison of RAID-5 and log-structured arrays", HPDC 1995; in closed
//! form by Lambert's W: Desnoyers, "Analytic modeling of SSD write performance", SYSTOR 2012). Greedy
//! collection, which takes the block with the least live records, cannot be bettered where all records
//! are updated alike; with many records a block all blocks of one age are alike, and it comes to the
//! same. With few, it is a little better (Bux and Iliadis, "Performance of greedy garbage collection in
//! flash-based solid-state drives", Performance Evaluation 2010).

/// Records written for each record that is updated, at a fill between 0 and 1.
pub(super) fn write_amplification(fill: f64) -> f64 {
    let mut live = 0.0_f64;
    // From 0, it rises to the lower one of the two fixed points; the other one is 1.
    for _ in 0..100_000 {
        let next = (-(1.0 - live) / fill).exp();
        if next - live < 1e-12 {
            break;
        }
        live = next;
    }
    1.0 / (1.0 - live)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;

    /// Greedy collection of uniform updates, simulated: records written for each update.
    fn simulated(fill: f64) -> f64 {
        const BLOCKS: usize = 512;
        const PER_BLOCK: usize = 256;
        const NONE: usize = usize::MAX;
        let live = (fill * (BLOCKS * PER_BLOCK) as f64) as usize;
        let mut random = Rng::with_seed(1);
        let mut place_of = vec![NONE; live];
        let mut slots = vec![NONE; BLOCKS * PER_BLOCK];
        let mut count = vec![0_usize; BLOCKS];
        let mut free: Vec<usize> = (1..BLOCKS).collect();
        let (mut block, mut used, mut written) = (0, 0, 0_u64);
        let mut moves: Vec<usize> = Vec::new();
        let (mut updates, warm, end) = (0, 6 * live as u64, 9 * live as u64);
        let mut next_new = 0;
        while updates < end {
            let record = match moves.pop() {
                Some(record) => record,
                None => {
                    if updates == warm {
                        written = 0;
                    }
                    updates += 1;
                    next_new += 1;
                    if next_new <= live { next_new - 1 } else { random.u64(..live as u64) as usize }
                }
            };
            if used == PER_BLOCK {
                if free.len() <= 1 && moves.is_empty() {
                    let victims = (0..BLOCKS).filter(|at| *at != block && !free.contains(at));
                    let victim = victims.min_by_key(|at| count[*at]).unwrap();
                    let slots = &mut slots[victim * PER_BLOCK..(victim + 1) * PER_BLOCK];
                    for slot in slots.iter_mut() {
                        let held = std::mem::replace(slot, NONE);
                        if held != NONE {
                            place_of[held] = NONE;
                            moves.push(held);
                        }
                    }
                    count[victim] = 0;
                    free.insert(0, victim);
                }
                (block, used) = (free.pop().unwrap(), 0);
            }
            let old = std::mem::replace(&mut place_of[record], block * PER_BLOCK + used);
            if old != NONE {
                slots[old] = NONE;
                count[old / PER_BLOCK] -= 1;
            }
            // The record at hand may be one that is about to be moved.
            moves.retain(|moved| *moved != record);
            slots[block * PER_BLOCK + used] = record;
            count[block] += 1;
            used += 1;
            written += 1;
        }
        written as f64 / (end - warm) as f64
    }

    #[test]
    fn greedy_collection_played_out_comes_to_the_fixed_point() {
        for fill in [0.7, 0.8] {
            let (theory, played) = (write_amplification(fill), simulated(fill));
            assert!((played / theory - 1.0).abs() < 0.08, "{fill}: {played}, not {theory}");
        }
    }

    #[test]
    fn the_fixed_point_is_one() {
        for fill in [0.1, 0.5, 0.7, 0.8, 0.9, 0.95] {
            let live = 1.0 - 1.0 / write_amplification(fill);
            assert!((live - (-(1.0 - live) / fill).exp()).abs() < 1e-9);
        }
        assert!((write_amplification(0.1) - 1.0).abs() < 1e-4);
        // Desnoyers' closed form at these fills, by Lambert's W.
        for (fill, expected) in [(0.7, 1.876), (0.8, 2.693), (0.9, 5.179)] {
            let found = write_amplification(fill);
            assert!((found - expected).abs() < 0.001, "{fill}: {found}");
        }
    }
}
