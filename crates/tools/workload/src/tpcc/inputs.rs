//! The inputs of the five transactions (§2.4.1, §2.5.1, §2.6.1, §2.7.1, §2.8.1).
//!
//! An input names all warehouses that its transaction touches, so that a store with partitions knows them beforehand.

use fastrand::Rng;

use super::random::{self, Constants};
use super::scale::Scale;

/// Which customer a transaction is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Customer {
    /// The customer with this number.
    Number(u32),
    /// The middle one of the customers with this last name, in the order of first names.
    Name(String),
}

/// A line of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// The item, OL_I_ID; the item of no line has the number 0.
    pub item: u32,
    /// The warehouse that supplies it, OL_SUPPLY_W_ID.
    pub supplier: u32,
    /// The quantity.
    pub quantity: u32,
}

/// The input of New-Order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewOrder {
    /// W_ID.
    pub warehouse: u32,
    /// D_ID.
    pub district: u32,
    /// C_ID.
    pub customer: u32,
    /// 5 to 15 lines. The last line of one of a hundred orders has an unused item: the order is rolled back.
    pub lines: Vec<Line>,
}

/// The input of Payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payment {
    /// W_ID, of the warehouse that takes the money.
    pub warehouse: u32,
    /// D_ID.
    pub district: u32,
    /// C_W_ID: another warehouse for 15 % of payments.
    pub customer_warehouse: u32,
    /// C_D_ID.
    pub customer_district: u32,
    /// The customer.
    pub customer: Customer,
    /// H_AMOUNT, in cents.
    pub cents: i64,
}

/// The input of Order-Status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderStatus {
    /// W_ID.
    pub warehouse: u32,
    /// D_ID.
    pub district: u32,
    /// The customer.
    pub customer: Customer,
}

/// The input of Delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    /// W_ID.
    pub warehouse: u32,
    /// O_CARRIER_ID.
    pub carrier: u32,
}

/// The input of Stock-Level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StockLevel {
    /// W_ID.
    pub warehouse: u32,
    /// D_ID.
    pub district: u32,
    /// The quantity below which stock is low.
    pub threshold: i64,
}

impl NewOrder {
    /// The warehouses that the order touches; the first is its own.
    #[must_use]
    pub fn warehouses(&self) -> Vec<u32> {
        let mut warehouses = vec![self.warehouse];
        for line in &self.lines {
            if !warehouses.contains(&line.supplier) {
                warehouses.push(line.supplier);
            }
        }
        warehouses
    }
}

impl Payment {
    /// The warehouses that the payment touches; the first is the one that takes the money.
    #[must_use]
    pub fn warehouses(&self) -> Vec<u32> {
        let mut warehouses = vec![self.warehouse, self.customer_warehouse];
        warehouses.dedup();
        warehouses
    }
}

/// Draws the inputs of a terminal.
#[derive(Debug, Clone)]
pub struct Inputs {
    scale: Scale,
    constants: Constants,
}

impl Inputs {
    /// Inputs for a database of this size, with the constants of the run.
    #[must_use]
    pub fn new(scale: Scale, constants: Constants) -> Self {
        Self { scale, constants }
    }

    /// An order (§2.4.1).
    #[must_use]
    pub fn new_order(&self, random: &mut Rng, warehouse: u32) -> NewOrder {
        let is_rolled_back = random.u32(1..=100) == 1;
        let count = random.u32(5..=15);
        let mut lines: Vec<_> = (0..count)
            .map(|_| {
                let is_remote = random.u32(1..=100) == 1;
                Line {
                    item: random::item(random, &self.constants, self.scale.items),
                    supplier: if is_remote { self.other(random, warehouse) } else { warehouse },
                    quantity: random.u32(1..=10),
                }
            })
            .collect();
        if let (true, Some(last)) = (is_rolled_back, lines.last_mut()) {
            last.item = 0;
        }
        NewOrder {
            warehouse,
            district: random.u32(1..=self.scale.districts),
            customer: random::customer(random, &self.constants, self.scale.customers),
            lines,
        }
    }

    /// A payment (§2.5.1).
    #[must_use]
    pub fn payment(&self, random: &mut Rng, warehouse: u32) -> Payment {
        let district = random.u32(1..=self.scale.districts);
        let is_remote = random.u32(1..=100) > 85 && self.scale.warehouses > 1;
        let (customer_warehouse, customer_district) = match is_remote {
            true => (self.other(random, warehouse), random.u32(1..=self.scale.districts)),
            false => (warehouse, district),
        };
        let (customer, cents) = (self.customer(random), random.i64(100..=500_000));
        Payment { warehouse, district, customer_warehouse, customer_district, customer, cents }
    }

    /// A question for an order (§2.6.1).
    #[must_use]
    pub fn order_status(&self, random: &mut Rng, warehouse: u32) -> OrderStatus {
        let district = random.u32(1..=self.scale.districts);
        OrderStatus { warehouse, district, customer: self.customer(random) }
    }

    /// A delivery (§2.7.1).
    #[must_use]
    pub fn delivery(&self, random: &mut Rng, warehouse: u32) -> Delivery {
        Delivery { warehouse, carrier: random.u32(1..=10) }
    }

    /// A question for the stock of a terminal's district (§2.8.1).
    #[must_use]
    pub fn stock_level(&self, random: &mut Rng, warehouse: u32, district: u32) -> StockLevel {
        StockLevel { warehouse, district, threshold: random.i64(10..=20) }
    }

    /// A customer: 60 % by last name.
    fn customer(&self, random: &mut Rng) -> Customer {
        if random.u32(1..=100) > 60 {
            let customers = self.scale.customers;
            return Customer::Number(random::customer(random, &self.constants, customers));
        }
        let names = self.scale.last_names();
        Customer::Name(random::last_name(random::last_name_number(random, &self.constants, names)))
    }

    /// Another warehouse, if there is one.
    fn other(&self, random: &mut Rng, warehouse: u32) -> u32 {
        if self.scale.warehouses == 1 {
            return warehouse;
        }
        let drawn = random.u32(1..self.scale.warehouses);
        drawn + u32::from(drawn >= warehouse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(warehouses: u32) -> (Inputs, Rng) {
        let mut random = Rng::with_seed(6);
        let constants = Constants::for_load(&mut random);
        (Inputs::new(Scale::full(warehouses), constants), random)
    }

    #[test]
    fn orders_have_the_shares_of_rollbacks_and_remote_lines() {
        let (inputs, mut random) = inputs(4);
        let (mut lines, mut remote, mut rolled_back) = (0_u32, 0_u32, 0_u32);
        for _ in 0..20_000 {
            let order = inputs.new_order(&mut random, 2);
            assert!((5..=15).contains(&order.lines.len()));
            assert!((1..=10).contains(&order.district) && (1..=3000).contains(&order.customer));
            let (last, others) = order.lines.split_last().unwrap();
            assert!(others.iter().all(|line| (1..=100_000).contains(&line.item)));
            assert!(order.lines.iter().all(|line| (1..=4).contains(&line.supplier)));
            rolled_back += u32::from(last.item == 0);
            lines += order.lines.len() as u32;
            let far = order.lines.iter().filter(|line| line.supplier != 2).count();
            remote += far as u32;
            assert_eq!(order.warehouses()[0], 2);
            assert_eq!(order.warehouses().len() > 1, far > 0);
        }
        assert!((140..260).contains(&rolled_back), "{rolled_back} of 20,000");
        assert!(remote.abs_diff(lines / 100) < lines / 500, "{remote} of {lines}");
        assert!((9 * 20_000..11 * 20_000).contains(&lines));
    }

    #[test]
    fn payments_have_the_shares_of_remote_customers_and_last_names() {
        let (inputs, mut random) = inputs(4);
        let (mut remote, mut named) = (0_u32, 0_u32);
        for _ in 0..20_000 {
            let payment = inputs.payment(&mut random, 1);
            assert!((100..=500_000).contains(&payment.cents));
            let is_remote = payment.customer_warehouse != 1;
            assert!(is_remote || payment.customer_district == payment.district);
            assert_eq!(payment.warehouses().len(), 1 + usize::from(is_remote));
            remote += u32::from(is_remote);
            named += u32::from(matches!(payment.customer, Customer::Name(_)));
        }
        assert!(remote.abs_diff(3000) < 250, "{remote} of 20,000");
        assert!(named.abs_diff(12_000) < 350, "{named} of 20,000");
    }

    #[test]
    fn a_single_warehouse_has_no_remote_inputs() {
        let (inputs, mut random) = inputs(1);
        for _ in 0..2000 {
            assert_eq!(inputs.payment(&mut random, 1).customer_warehouse, 1);
            assert_eq!(inputs.new_order(&mut random, 1).warehouses(), [1]);
            assert!((10..=20).contains(&inputs.stock_level(&mut random, 1, 3).threshold));
            assert!((1..=10).contains(&inputs.delivery(&mut random, 1).carrier));
        }
    }
}
