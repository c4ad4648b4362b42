//! The testbed's errors as those of the contract.

use std::sync::Arc;

use halite_contract::{Error as Told, ErrorClass, OwnError};
use halite_disk::Error as DiskError;
use halite_sst::Error as RunError;
use halite_wal::Error as LogError;

use crate::Error;
use crate::index::Error as IndexError;

impl From<Error> for Told {
    fn from(error: Error) -> Self {
        match error {
            Error::Damaged { what, why } => Self::Damaged { what: what.into(), why: why.into() },
            Error::Lost { why } => Self::Poisoned { why: why.into() },
            Error::KeyTooLong { len, .. } => Self::KeyTooLong { len },
            Error::TransactionTooLarge { len, max } => Self::BatchTooLarge { len, limit: max },
            Error::OtherMethod { wanted, found, .. } => {
                Self::OtherEngine { wanted: wanted.into(), found: found.into() }
            }
            Error::Partitions { asked, max } => {
                Self::Partitions { asked: asked as usize, limit: max as usize }
            }
            Error::Disk(error) => Self::Disk(error),
            Error::Log(error) => of_log(error),
            Error::Run(error) => of_run(error),
            Error::Heap(error) => match Arc::try_unwrap(error) {
                Ok(error) => Self::Alloc(error),
                Err(shared) => own(ErrorClass::Other, Error::Heap(shared)),
            },
            Error::Index(error) => match Arc::try_unwrap(error) {
                Ok(error) => of_index(error),
                Err(shared) => own(ErrorClass::Other, Error::Index(shared)),
            },
            other => own(ErrorClass::Other, other),
        }
    }
}

fn of_index(error: IndexError) -> Told {
    match error {
        IndexError::Heap(error) => Told::Alloc(error),
        IndexError::Disk(error) => Told::Disk(Arc::new(error)),
        IndexError::Full { .. } => own(ErrorClass::NoSpace, error.into()),
        IndexError::Damaged { path, page, reason } => Told::Damaged {
            what: format!("page {page} of {}", path.display()),
            why: reason.to_owned(),
        },
        IndexError::DamagedNode { pointer, reason } => Told::Damaged {
            what: format!("the index node at {pointer:#x}"),
            why: reason.to_owned(),
        },
        other => own(ErrorClass::Other, other.into()),
    }
}

fn of_log(error: LogError) -> Told {
    match error {
        LogError::Damaged { file, what, why } => {
            Told::Damaged { what: format!("{what} of {file}"), why }
        }
        LogError::Missing { file } => Told::Damaged { what: file, why: "it is missing".into() },
        LogError::NoFile(reason) if matches!(*reason, DiskError::NoSpace { .. }) => {
            own(ErrorClass::NoSpace, LogError::NoFile(reason).into())
        }
        LogError::Disk(error) => Told::Disk(error),
        other => own(ErrorClass::Other, other.into()),
    }
}

fn of_run(error: Arc<RunError>) -> Told {
    match &*error {
        RunError::Damaged { file, what, why } => {
            Told::Damaged { what: format!("{what} of {file}"), why: why.clone() }
        }
        RunError::Missing { file } => {
            Told::Damaged { what: file.clone(), why: "it is missing".into() }
        }
        _ => own(ErrorClass::Other, Error::Run(error)),
    }
}

fn own(class: ErrorClass, error: Error) -> Told {
    OwnError::new(class, error).into()
}
