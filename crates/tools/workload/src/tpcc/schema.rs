//! The nine tables of TPC-C (§1.3), and one of the load.
//!
//! ```text
//! WAREHOUSE   W                       DISTRICT    W, D                CUSTOMER  W, D, C    by_name: W, D, LAST, FIRST
//! HISTORY     W, D, CW, CD, C, SEQ    NEW_ORDER   W, D, O             ORDERS    W, D, O    by_customer: W, D, C, O
//! ORDER_LINE  W, D, O, NUMBER         STOCK       W, I                ITEM      I          TPCC_LOAD  W
//! ```
//!
//! The first column of each key is the warehouse, but for ITEM, which has none. HISTORY has no primary key in the
//! specification; here H_SEQ is the customer's C_PAYMENT_CNT at the payment, so that the key is unique. TPCC_LOAD has
//! a row for each warehouse: the size that was asked for, and the number of batches that are there.

use std::sync::LazyLock;

use halite_table::{TableSchema, Type};

const MONEY: Type = Type::Decimal(12, 2);
const RATE: Type = Type::Decimal(4, 4);

/// Defines the numbers of a table's columns, and its builder.
macro_rules! columns {
    ($(#[$doc:meta])* $module:ident: $($column:ident $kind:ident $ty:expr;)*) => {
        $(#[$doc])*
        #[allow(non_camel_case_types, missing_docs)]
        pub mod $module {
            enum Number { $($column),* }
            $(pub const $column: usize = Number::$column as usize;)*

            pub(super) fn builder(name: &str) -> halite_table::TableBuilder {
                #[allow(unused_imports, reason = "some tables have no money, or no rate")]
                use super::{MONEY, RATE, Type};
                super::TableSchema::builder(name)$(.$kind(stringify!($column), $ty))*
            }
        }
    };
}

columns! {
    /// Columns of WAREHOUSE.
    warehouse:
    W_ID column Type::UInt16;
    W_NAME column Type::VarChar(10);
    W_STREET_1 column Type::VarChar(20);
    W_STREET_2 column Type::VarChar(20);
    W_CITY column Type::VarChar(20);
    W_STATE column Type::Char(2);
    W_ZIP column Type::Char(9);
    W_TAX column RATE;
    W_YTD column MONEY;
}

columns! {
    /// Columns of DISTRICT.
    district:
    D_W_ID column Type::UInt16;
    D_ID column Type::UInt8;
    D_NAME column Type::VarChar(10);
    D_STREET_1 column Type::VarChar(20);
    D_STREET_2 column Type::VarChar(20);
    D_CITY column Type::VarChar(20);
    D_STATE column Type::Char(2);
    D_ZIP column Type::Char(9);
    D_TAX column RATE;
    D_YTD column MONEY;
    D_NEXT_O_ID column Type::UInt32;
}

columns! {
    /// Columns of CUSTOMER.
    customer:
    C_W_ID column Type::UInt16;
    C_D_ID column Type::UInt8;
    C_ID column Type::UInt32;
    C_FIRST column Type::VarChar(16);
    C_MIDDLE column Type::Char(2);
    C_LAST column Type::VarChar(16);
    C_STREET_1 column Type::VarChar(20);
    C_STREET_2 column Type::VarChar(20);
    C_CITY column Type::VarChar(20);
    C_STATE column Type::Char(2);
    C_ZIP column Type::Char(9);
    C_PHONE column Type::Char(16);
    C_SINCE column Type::Timestamp;
    C_CREDIT column Type::Char(2);
    C_CREDIT_LIM column MONEY;
    C_DISCOUNT column RATE;
    C_BALANCE column MONEY;
    C_YTD_PAYMENT column MONEY;
    C_PAYMENT_CNT column Type::UInt32;
    C_DELIVERY_CNT column Type::UInt32;
    C_DATA column Type::VarChar(500);
}

columns! {
    /// Columns of HISTORY.
    history:
    H_W_ID column Type::UInt16;
    H_D_ID column Type::UInt8;
    H_C_W_ID column Type::UInt16;
    H_C_D_ID column Type::UInt8;
    H_C_ID column Type::UInt32;
    H_SEQ column Type::UInt32;
    H_DATE column Type::Timestamp;
    H_AMOUNT column Type::Decimal(6, 2);
    H_DATA column Type::VarChar(24);
}

columns! {
    /// Columns of NEW-ORDER.
    new_order:
    NO_W_ID column Type::UInt16;
    NO_D_ID column Type::UInt8;
    NO_O_ID column Type::UInt32;
}

columns! {
    /// Columns of ORDER.
    order:
    O_W_ID column Type::UInt16;
    O_D_ID column Type::UInt8;
    O_ID column Type::UInt32;
    O_C_ID column Type::UInt32;
    O_ENTRY_D column Type::Timestamp;
    O_CARRIER_ID nullable Type::UInt8;
    O_OL_CNT column Type::UInt8;
    O_ALL_LOCAL column Type::UInt8;
}

columns! {
    /// Columns of ORDER-LINE.
    order_line:
    OL_W_ID column Type::UInt16;
    OL_D_ID column Type::UInt8;
    OL_O_ID column Type::UInt32;
    OL_NUMBER column Type::UInt8;
    OL_I_ID column Type::UInt32;
    OL_SUPPLY_W_ID column Type::UInt16;
    OL_DELIVERY_D nullable Type::Timestamp;
    OL_QUANTITY column Type::UInt8;
    OL_AMOUNT column Type::Decimal(6, 2);
    OL_DIST_INFO column Type::Char(24);
}

columns! {
    /// Columns of ITEM.
    item:
    I_ID column Type::UInt32;
    I_IM_ID column Type::UInt32;
    I_NAME column Type::VarChar(24);
    I_PRICE column Type::Decimal(5, 2);
    I_DATA column Type::VarChar(50);
}

columns! {
    /// Columns of STOCK; those behind S_DIST_01 have the numbers behind it.
    stock:
    S_W_ID column Type::UInt16;
    S_I_ID column Type::UInt32;
    S_QUANTITY column Type::Int16;
    S_DIST_01 column Type::Char(24);
    S_DIST_02 column Type::Char(24);
    S_DIST_03 column Type::Char(24);
    S_DIST_04 column Type::Char(24);
    S_DIST_05 column Type::Char(24);
    S_DIST_06 column Type::Char(24);
    S_DIST_07 column Type::Char(24);
    S_DIST_08 column Type::Char(24);
    S_DIST_09 column Type::Char(24);
    S_DIST_10 column Type::Char(24);
    S_YTD column Type::UInt32;
    S_ORDER_CNT column Type::UInt32;
    S_REMOTE_CNT column Type::UInt32;
    S_DATA column Type::VarChar(50);
}

columns! {
    /// Columns of TPCC_LOAD.
    load:
    L_W_ID column Type::UInt16;
    L_WAREHOUSES column Type::UInt16;
    L_DISTRICTS column Type::UInt8;
    L_CUSTOMERS column Type::UInt32;
    L_ITEMS column Type::UInt32;
    L_C_LAST_CONSTANT column Type::UInt8;
    L_SEED column Type::UInt64;
    L_DONE column Type::UInt32;
}

/// The number of WAREHOUSE.
pub const WAREHOUSE: usize = 0;
/// The number of DISTRICT.
pub const DISTRICT: usize = 1;
/// The number of CUSTOMER.
pub const CUSTOMER: usize = 2;
/// The number of HISTORY.
pub const HISTORY: usize = 3;
/// The number of NEW-ORDER.
pub const NEW_ORDER: usize = 4;
/// The number of ORDER.
pub const ORDER: usize = 5;
/// The number of ORDER-LINE.
pub const ORDER_LINE: usize = 6;
/// The number of ITEM, of which a store with partitions has a copy in each.
pub const ITEM: usize = 7;
/// The number of STOCK.
pub const STOCK: usize = 8;
/// The number of TPCC_LOAD.
pub const LOAD: usize = 9;

/// The index of CUSTOMER by C_W_ID, C_D_ID, C_LAST and C_FIRST.
pub const BY_NAME: usize = 0;

/// The index of ORDER by O_W_ID, O_D_ID, O_C_ID and O_ID.
pub const BY_CUSTOMER: usize = 0;

static SCHEMAS: LazyLock<Vec<TableSchema>> = LazyLock::new(|| {
    let tables = [
        warehouse::builder("WAREHOUSE").primary_key(["W_ID"]),
        district::builder("DISTRICT").primary_key(["D_W_ID", "D_ID"]),
        customer::builder("CUSTOMER")
            .primary_key(["C_W_ID", "C_D_ID", "C_ID"])
            .index("by_name", ["C_W_ID", "C_D_ID", "C_LAST", "C_FIRST"]),
        history::builder("HISTORY")
            .primary_key(["H_W_ID", "H_D_ID", "H_C_W_ID", "H_C_D_ID", "H_C_ID", "H_SEQ"]),
        new_order::builder("NEW_ORDER").primary_key(["NO_W_ID", "NO_D_ID", "NO_O_ID"]),
        order::builder("ORDERS")
            .primary_key(["O_W_ID", "O_D_ID", "O_ID"])
            .unique_index("by_customer", ["O_W_ID", "O_D_ID", "O_C_ID", "O_ID"]),
        order_line::builder("ORDER_LINE").primary_key([
            "OL_W_ID",
            "OL_D_ID",
            "OL_O_ID",
            "OL_NUMBER",
        ]),
        item::builder("ITEM").primary_key(["I_ID"]),
        stock::builder("STOCK").primary_key(["S_W_ID", "S_I_ID"]),
        load::builder("TPCC_LOAD").primary_key(["L_W_ID"]),
    ];
    tables.into_iter().map(|table| table.build().expect("the schemas are right")).collect()
});

/// The schemas of the tables, by their numbers.
#[must_use]
pub fn schemas() -> &'static [TableSchema] {
    &SCHEMAS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_their_numbers_and_columns() {
        let columns: Vec<_> = schemas().iter().map(|schema| schema.columns().len()).collect();
        assert_eq!(columns, [9, 11, 21, 9, 3, 8, 10, 5, 17, 8]);
        assert_eq!(schemas()[ORDER].name(), "ORDERS");
        assert_eq!(schemas()[STOCK].column("S_DIST_10").unwrap(), stock::S_DIST_01 + 9);
        assert_eq!(schemas()[CUSTOMER].index("by_name").unwrap(), BY_NAME);
        assert_eq!(schemas()[ORDER].index("by_customer").unwrap(), BY_CUSTOMER);
    }
}
