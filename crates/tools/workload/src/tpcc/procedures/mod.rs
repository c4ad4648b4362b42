//! The five transactions, each as the body of one transaction of a store.

mod customer;
mod delivery;
mod new_order;
mod order_status;
mod payment;
mod stock_level;

pub use customer::CustomerName;
pub use delivery::{Delivered, deliver};
pub use new_order::{Ordered, OrderedLine, order};
pub use order_status::{Status, StatusLine, status};
pub use payment::{Paid, pay};
pub use stock_level::count_low_stock;
