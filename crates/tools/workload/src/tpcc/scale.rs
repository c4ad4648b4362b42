//! The size of a TPC-C database (§1.2.1, §4.3.3).

use crate::{Error, Result};

/// The numbers of rows. Orders are as many as customers, the newest three tenths of them not delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale {
    /// Warehouses.
    pub warehouses: u32,
    /// Districts of a warehouse.
    pub districts: u32,
    /// Customers, and orders, of a district.
    pub customers: u32,
    /// Items, and rows of STOCK a warehouse.
    pub items: u32,
}

impl Scale {
    /// The most warehouses that there may be.
    pub const WAREHOUSES_MAX: u32 = 65_535;

    /// Districts of a warehouse at full cardinality; STOCK has a column for each.
    pub const DISTRICTS: u32 = 10;

    /// The full cardinality of the specification.
    #[must_use]
    pub fn full(warehouses: u32) -> Self {
        Self { warehouses, districts: Self::DISTRICTS, customers: 3000, items: 100_000 }
    }

    /// A database of a few hundred rows a warehouse, for tests and the crash lab.
    #[must_use]
    pub fn tiny(warehouses: u32) -> Self {
        Self { warehouses, districts: 2, customers: 30, items: 100 }
    }

    /// Checks that there can be such a database.
    ///
    /// # Errors
    /// [`Error::Scale`].
    pub fn check(&self) -> Result<()> {
        let limits = [
            ("warehouses", self.warehouses, 1, Self::WAREHOUSES_MAX),
            ("districts", self.districts, 1, Self::DISTRICTS),
            ("customers", self.customers, 10, 3000),
            ("items", self.items, 20, 100_000),
        ];
        for (what, found, min, max) in limits {
            if !(min..=max).contains(&found) {
                return Err(Error::Scale { what, found, min, max });
            }
        }
        Ok(())
    }

    /// Orders of a district after the load.
    #[must_use]
    pub fn orders(&self) -> u32 {
        self.customers
    }

    /// Orders of a district that were delivered when it was loaded: 2,100.
    #[must_use]
    pub fn delivered(&self) -> u32 {
        self.customers - self.customers * 3 / 10
    }

    /// Last names that there are.
    pub(crate) fn last_names(&self) -> u32 {
        self.customers.min(1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_cardinality_is_that_of_the_specification() {
        let scale = Scale::full(1);
        assert_eq!((scale.districts, scale.customers, scale.items), (10, 3000, 100_000));
        assert_eq!((scale.orders(), scale.delivered(), scale.last_names()), (3000, 2100, 1000));
    }

    #[test]
    fn impossible_sizes_are_refused_by_name() {
        for warehouses in [0, 65_536] {
            let refused = Scale::full(warehouses).check();
            assert!(matches!(refused, Err(Error::Scale { what: "warehouses", .. })));
        }
        assert!(Scale::full(65_535).check().is_ok());
        let refused = Scale { districts: 11, ..Scale::full(1) }.check();
        assert!(matches!(refused, Err(Error::Scale { what: "districts", found: 11, .. })));
    }
}
