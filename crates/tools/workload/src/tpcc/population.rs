//! The initial rows (§4.3.3), batch by batch.
//!
//! Each batch is one transaction, and is made of the seed, the warehouse and the batch's number alone: a load that was
//! broken off goes on with the next batch. The batches of a warehouse:
//!
//! ```text
//! warehouse 1 alone:  items      1,000 a batch
//! each:               WAREHOUSE and DISTRICT in one batch; STOCK, 1,000 rows a batch
//! each district:      CUSTOMER and HISTORY, 500 customers a batch; ORDER, ORDER-LINE, NEW-ORDER, 200 orders a batch
//! ```

use fastrand::Rng;
use halite_table::{Timestamp, ValueRef, values};

use super::random::{self, Constants, a_string, last_name, n_string, state, zip};
use super::rows::{money, rate};
use super::scale::Scale;
use super::schema::{
    CUSTOMER, DISTRICT, HISTORY, ITEM, NEW_ORDER, ORDER, ORDER_LINE, STOCK, WAREHOUSE,
};
use crate::Result;
use crate::store::Transaction;

/// Rows of ITEM or STOCK, customers, and orders a batch.
const ITEMS: u32 = 1000;
const CUSTOMERS: u32 = 500;
const ORDERS: u32 = 200;

/// The payment that each customer has made, and the balance thereafter is its negative.
const FIRST_PAYMENT_CENTS: i64 = 1000;

/// The parameters that determine the rows of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Population {
    pub(super) scale: Scale,
    pub(super) seed: u64,
    pub(super) last: u64,
    /// The moment of all first orders and payments.
    pub(super) now: Timestamp,
}

/// A part of a warehouse's rows, from the row or order `first` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Batch {
    Items { first: u32 },
    Warehouse,
    Stock { first: u32 },
    Customers { district: u32, first: u32 },
    Orders { district: u32, first: u32 },
}

/// The batches of a warehouse, in the order in which they are loaded.
pub(super) fn batches(scale: &Scale, warehouse: u32) -> Vec<Batch> {
    let starts = |count: u32, step: u32| (1..=count).step_by(step as usize);
    let mut batches = Vec::new();
    if warehouse == 1 {
        batches.extend(starts(scale.items, ITEMS).map(|first| Batch::Items { first }));
    }
    batches.push(Batch::Warehouse);
    batches.extend(starts(scale.items, ITEMS).map(|first| Batch::Stock { first }));
    for district in 1..=scale.districts {
        let customers = starts(scale.customers, CUSTOMERS);
        batches.extend(customers.map(|first| Batch::Customers { district, first }));
        let orders = starts(scale.orders(), ORDERS);
        batches.extend(orders.map(|first| Batch::Orders { district, first }));
    }
    batches
}

impl Population {
    /// The numbers of a batch, or of a district's permutation of customers.
    fn random(&self, parts: [u32; 3]) -> Rng {
        let mut random = Rng::with_seed(self.seed);
        for part in parts {
            let next = random.u64(..) ^ u64::from(part);
            random = Rng::with_seed(next);
        }
        random
    }

    /// Inserts the rows of a batch. An item that is there is left as it is: each copy of ITEM gets the same rows.
    pub(super) fn insert(
        &self,
        tx: &mut dyn Transaction,
        warehouse: u32,
        number: u32,
        batch: Batch,
    ) -> Result<()> {
        let mut random = self.random([warehouse, number, 0]);
        let until = |first: u32, step: u32, count: u32| first..=(first + step - 1).min(count);
        match batch {
            Batch::Items { first } => until(first, ITEMS, self.scale.items)
                .try_for_each(|item| self.insert_item(tx, &mut random, item)),
            Batch::Warehouse => self.insert_warehouse(tx, &mut random, warehouse),
            Batch::Stock { first } => until(first, ITEMS, self.scale.items)
                .try_for_each(|item| insert_stock(tx, &mut random, warehouse, item)),
            Batch::Customers { district, first } => until(first, CUSTOMERS, self.scale.customers)
                .try_for_each(|customer| {
                    self.insert_customer(tx, &mut random, [warehouse, district, customer])
                }),
            Batch::Orders { district, first } => {
                let mut customers: Vec<_> = (1..=self.scale.customers).collect();
                self.random([warehouse, district, 1]).shuffle(&mut customers);
                until(first, ORDERS, self.scale.orders()).try_for_each(|order| {
                    let customer = customers[order as usize - 1];
                    self.insert_order(tx, &mut random, [warehouse, district, order], customer)
                })
            }
        }
    }

    fn insert_item(&self, tx: &mut dyn Transaction, random: &mut Rng, item: u32) -> Result<()> {
        let (image, name) = (random.u32(1..=10_000), a_string(random, 14..=24));
        let (price, data) = (money(random.i64(100..=10_000)), random::data(random));
        if tx.get(ITEM, &values![item], &mut |_| Ok(()))? {
            return Ok(());
        }
        tx.insert(ITEM, &values![item, image, &name, price, &data])
    }

    fn insert_warehouse(&self, tx: &mut dyn Transaction, random: &mut Rng, w: u32) -> Result<()> {
        let (districts, customers) = (self.scale.districts, self.scale.customers);
        let received = FIRST_PAYMENT_CENTS * i64::from(customers);
        let (name, address) = (a_string(random, 6..=10), Address::new(random));
        let [street_1, street_2, city, state, zip] = address.values();
        let (tax, ytd) = (rate(random.i64(0..=2000)), money(received * i64::from(districts)));
        let row = values![w, &name, street_1, street_2, city, state, zip, tax, ytd];
        tx.insert(WAREHOUSE, &row)?;
        for d in 1..=districts {
            let (name, address) = (a_string(random, 6..=10), Address::new(random));
            let [street_1, street_2, city, state, zip] = address.values();
            let (tax, ytd) = (rate(random.i64(0..=2000)), money(received));
            let next = self.scale.orders() + 1;
            let row = values![w, d, &name, street_1, street_2, city, state, zip, tax, ytd, next];
            tx.insert(DISTRICT, &row)?;
        }
        Ok(())
    }

    fn insert_customer(
        &self,
        tx: &mut dyn Transaction,
        random: &mut Rng,
        [w, d, c]: [u32; 3],
    ) -> Result<()> {
        let constants = Constants { last: self.last, customer: 0, item: 0 };
        let last = match c {
            ..=1000 => last_name(c - 1),
            _ => last_name(random::last_name_number(random, &constants, self.scale.last_names())),
        };
        let (first, address) = (a_string(random, 8..=16), Address::new(random));
        let [street_1, street_2, city, state, zip] = address.values();
        let phone = n_string(random, 16..=16);
        let credit = if random.u32(..10) == 0 { "BC" } else { "GC" };
        let (limit, discount) = (money(5_000_000), rate(random.i64(0..=5000)));
        let (balance, paid) = (money(-FIRST_PAYMENT_CENTS), money(FIRST_PAYMENT_CENTS));
        let (data, now) = (a_string(random, 300..=500), self.now);
        let row = values![
            w, d, c, &first, "OE", &last, street_1, street_2, city, state, zip, &phone, now,
            credit, limit, discount, balance, paid, 1, 0, &data,
        ];
        tx.insert(CUSTOMER, &row)?;
        let data = a_string(random, 12..=24);
        tx.insert(HISTORY, &values![w, d, w, d, c, 1, now, paid, &data])
    }

    fn insert_order(
        &self,
        tx: &mut dyn Transaction,
        random: &mut Rng,
        [w, d, o]: [u32; 3],
        customer: u32,
    ) -> Result<()> {
        let is_delivered = o <= self.scale.delivered();
        let (carrier, lines) = (random.u32(1..=10), random.u32(5..=15));
        let carrier = is_delivered.then_some(carrier);
        tx.insert(ORDER, &values![w, d, o, customer, self.now, carrier, lines, 1])?;
        for line in 1..=lines {
            let item = random.u32(1..=self.scale.items);
            let delivered = is_delivered.then_some(self.now);
            let amount = if is_delivered { 0 } else { random.i64(1..=999_999) };
            let info = a_string(random, 24..=24);
            let row = values![w, d, o, line, item, w, delivered, 5, money(amount), &info];
            tx.insert(ORDER_LINE, &row)?;
        }
        match is_delivered {
            true => Ok(()),
            false => tx.insert(NEW_ORDER, &values![w, d, o]),
        }
    }
}

fn insert_stock(tx: &mut dyn Transaction, random: &mut Rng, w: u32, item: u32) -> Result<()> {
    let quantity = random.i64(10..=100);
    let infos: [_; 10] = std::array::from_fn(|_| a_string(random, 24..=24));
    let data = random::data(random);
    let mut row: Vec<ValueRef<'_>> = values![w, item, quantity].to_vec();
    row.extend(infos.iter().map(ValueRef::from));
    row.extend(values![0, 0, 0, &data]);
    tx.insert(STOCK, &row)
}

/// The address of a warehouse, a district or a customer.
struct Address([String; 5]);

impl Address {
    fn new(random: &mut Rng) -> Self {
        let [street_1, street_2, city] = std::array::from_fn(|_| a_string(random, 10..=20));
        Self([street_1, street_2, city, state(random), zip(random)])
    }

    fn values(&self) -> [&str; 5] {
        self.0.each_ref().map(String::as_str)
    }
}
