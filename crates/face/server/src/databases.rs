//! Which key space a database number means, for programs that look into a database without a server.

use crate::store::Opened;

/// For each database the number N of its key space `db<N>`, as SWAPDB left them. Databases beyond them have their own
/// numbers.
///
/// # Errors
/// Those of the database, and damage of the record.
pub fn database_places(db: &halite::Database) -> halite::Result<Vec<usize>> {
    Opened::places(db)
}
