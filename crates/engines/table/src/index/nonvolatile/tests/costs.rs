//! Fences and lines.

use super::*;

#[test]
fn an_insertion_needs_no_fence_of_its_own_and_few_lines() {
    let mut place = Place::new(512);
    let keys: Vec<_> = (0..2000).map(|number| key_of(number * 2)).collect();
    let puts: Vec<_> = keys.iter().zip(0..).map(|(key, value)| Change::Put(key, value)).collect();
    place.change(&puts);
    // Leaves half full, none of which is of the newest publications.
    let half: Vec<_> = keys.iter().skip(1).step_by(2).map(|key| Change::Remove(key)).collect();
    place.change(&half);
    let before = place.segments.pool().traffic();
    let between: Vec<_> = (0..2000).step_by(64).map(|number| key_of(number * 2 + 1)).collect();
    for key in &between {
        let prepared = place.prepare(&[Change::Put(key, 9)]);
        assert_eq!(prepared.words.len(), 1);
        prepared.show(&mut place.heap).unwrap();
    }
    assert_eq!((place.segments.pool().traffic() - before).fences, 0);
    place.heap.fence().unwrap();
    let cost = place.segments.pool().traffic() - before;
    let count = between.len() as u64;
    // The entry, its key, and the word: a key may be on two lines, or on the word's.
    assert!((2 * count..=4 * count).contains(&cost.lines), "{} lines for {count}", cost.lines);
    println!("{:.2} lines for an insertion", cost.lines as f64 / count as f64);

    // All that a transaction adds to a leaf is shown by one word; values alone write no key.
    let before = place.segments.pool().traffic();
    for key in &between {
        place.prepare(&[Change::Put(key, 10)]).show(&mut place.heap).unwrap();
    }
    assert_eq!((place.segments.pool().traffic() - before).fences, 0);
    place.heap.fence().unwrap();
    let cost = place.segments.pool().traffic() - before;
    assert!(cost.lines <= 2 * count, "{} lines for {count} values", cost.lines);
}

#[test]
fn a_split_is_one_publication() {
    let mut place = Place::new(512);
    let keys: Vec<_> = (0..15).map(|number| key_of(number * 2)).collect();
    let puts: Vec<_> = keys.iter().map(|key| Change::Put(key, 1)).collect();
    place.change(&puts);
    let before = place.segments.pool().traffic();
    let key = key_of(7);
    let prepared = place.prepare(&[Change::Put(&key, 2)]);
    let cost = place.segments.pool().traffic() - before;
    // Two of them are for the first slab of inner nodes.
    assert_eq!(cost.fences, 1 + 2);
    let before = place.segments.pool().traffic();
    prepared.show(&mut place.heap).unwrap();
    // The word is of a leaf that the newest publication has made.
    assert_eq!((place.segments.pool().traffic() - before).fences, 2);
    place.heap.fence().unwrap();
    // Another one, in a tree with inner nodes.
    let mut costs = Vec::new();
    for number in 1..60_u64 {
        let key = [&key_of(8)[..], &number.to_be_bytes()].concat();
        let before = place.segments.pool().traffic();
        let prepared = place.prepare(&[Change::Put(&key, 3)]);
        let cost = place.segments.pool().traffic() - before;
        if cost.fences > 0 {
            costs.push((cost.fences, cost.lines));
        }
        prepared.show(&mut place.heap).unwrap();
        place.heap.fence().unwrap();
    }
    println!("{costs:?}");
    assert!(costs.iter().all(|&(fences, lines)| fences <= 3 && lines <= 70), "{costs:?}");
}
