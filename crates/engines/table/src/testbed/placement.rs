//! The partition of a row: by a hash of the first column of its primary key.
//!
//! Rows with one value in that column are in one partition, so that a transaction that is about one of them, such as one
//! warehouse, locks one partition. A program may place its rows by another rule; the command line has this one.

use halite_contract::Partitioning;

use super::Testbed;
use crate::{Result, TableSchema, ValueRef};

impl Testbed {
    /// The partition of the rows that have this value in the first column of their primary key.
    ///
    /// # Errors
    /// Those of [`KeySchema::prefix`](crate::KeySchema::prefix).
    pub fn partition_of(&self, schema: &TableSchema, first: ValueRef<'_>) -> Result<usize> {
        let prefix = schema.primary_key().prefix(&[first])?;
        Ok(Partitioning::Hash(self.partitions()).partition_of(&prefix))
    }
}

#[cfg(test)]
mod tests {
    use halite_contract::EngineOptions;

    use super::*;
    use crate::{Decimal, Kind, Type};

    #[test]
    fn equal_values_have_one_partition_and_all_partitions_have_values() {
        let mut options = EngineOptions::new("pool");
        options.pool_options.in_memory = true;
        options.pool_options.size_max = 256 << 20;
        options.partitioning = Some(Partitioning::Hash(3));
        let testbed = Testbed::open(Some(Kind::NvmInP), &options).unwrap();
        let schema = TableSchema::builder("t").column("a", Type::Decimal(9, 2));
        let schema = schema.column("b", Type::Int8).primary_key(["a", "b"]).build().unwrap();
        let mut counts = [0; 3];
        for number in 0..300 {
            let partition = testbed.partition_of(&schema, number.into()).unwrap();
            let same = Decimal::new(i128::from(number) * 10, 1).unwrap();
            assert_eq!(testbed.partition_of(&schema, same.into()).unwrap(), partition);
            counts[partition] += 1;
        }
        assert!(counts.iter().all(|&count| count > 50), "{counts:?}");
        assert!(testbed.partition_of(&schema, ValueRef::Null).is_err());
    }
}
