//! A bank: several threads transfer money between accounts, and the sum stays the same.
//!
//!     cargo run --release -p halite --example transactions [-- FOLDER]
//!
//! Without a folder, the bank is in memory.

use std::thread;

use halite::{Bytes, Database, Isolation, Locking, Result, TransactionOptions};

const ACCOUNTS: u64 = 20;
const TRANSFERS: u64 = 1_000;
const THREADS: u64 = 4;

fn amount(value: Option<Bytes>) -> u64 {
    value.and_then(|value| (&*value).try_into().ok()).map_or(0, u64::from_be_bytes)
}

fn account(number: u64) -> String {
    format!("account {number:02}")
}

fn main() -> Result<()> {
    let db = match std::env::args().nth(1) {
        Some(folder) => Database::open(folder)?,
        None => Database::in_memory()?,
    };
    let accounts = db.key_space("accounts")?;
    db.transaction(|tx| {
        (0..ACCOUNTS)
            .try_for_each(|number| tx.put(&accounts, account(number), 100_u64.to_be_bytes()))
    })?;

    for locking in [Locking::Optimistic, Locking::Pessimistic] {
        let options = TransactionOptions::default().locking(locking).retries(10_000);
        let transfer = |thread: u64, number: u64| {
            // Some accounts are in many transfers.
            let (from, to) = (number * 7 % ACCOUNTS, (number + thread) % 3);
            db.transaction_with(&options, |tx| {
                let has = amount(tx.get_for_update(&accounts, account(from))?);
                if from == to || has == 0 {
                    return Ok(());
                }
                tx.put(&accounts, account(from), (has - 1).to_be_bytes())?;
                let had = amount(tx.get_for_update(&accounts, account(to))?);
                tx.put(&accounts, account(to), (had + 1).to_be_bytes())
            })
        };
        thread::scope(|scope| -> Result<()> {
            let transfer = &transfer;
            let work =
                |thread| move || (0..TRANSFERS).try_for_each(|number| transfer(thread, number));
            let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(work(thread))).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
        })?;

        // Read-only: one state, that of all transfers so far, and no transfer waits for it.
        let audit = db.begin(TransactionOptions::default().isolation(Isolation::Snapshot))?;
        let sum = audit
            .iter(&accounts)?
            .try_fold(0, |sum, pair| pair.map(|(_, value)| sum + amount(Some(value))))?;
        println!("{locking:?}: {} transfers, the sum is {sum}", THREADS * TRANSFERS);
        assert_eq!(sum, 100 * ACCOUNTS);
    }
    Ok(())
}
