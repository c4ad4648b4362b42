//! Options that an engine has for itself.
//!
//! A value of the engine's own type travels through [`EngineOptions`](crate::EngineOptions) unread: the face sets it,
//! the engine of that type takes it out, and every other engine leaves it alone. There is at most one value of a type,
//! so one set of options can carry those of several engines, and the engine that opens the store chooses.

use std::any::Any;
use std::fmt::Debug;

/// Values of engines' own option types, at most one of each type.
#[derive(Debug, Clone, Default)]
pub struct OwnOptions(Vec<Box<dyn OwnValue>>);

/// An option value of a type that only its engine knows.
trait OwnValue: Any + Debug + Send + Sync {
    fn boxed_clone(&self) -> Box<dyn OwnValue>;
}

impl<T: Any + Clone + Debug + Send + Sync> OwnValue for T {
    fn boxed_clone(&self) -> Box<dyn OwnValue> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn OwnValue> {
    fn clone(&self) -> Self {
        (**self).boxed_clone()
    }
}

impl OwnOptions {
    /// The options of one engine.
    #[must_use]
    pub fn of<T: Any + Clone + Debug + Send + Sync>(options: T) -> Self {
        Self(vec![Box::new(options)])
    }

    /// The options of this type, or their defaults if none were set.
    #[must_use]
    pub fn get<T: Any + Clone + Debug + Default + Send + Sync>(&self) -> T {
        let found = self.0.iter().find_map(|own| (&**own as &dyn Any).downcast_ref::<T>());
        found.cloned().unwrap_or_default()
    }

    /// The options of this type, to be changed. They begin with their defaults.
    pub fn get_mut<T: Any + Clone + Debug + Default + Send + Sync>(&mut self) -> &mut T {
        let found = self.0.iter().position(|own| (&**own as &dyn Any).is::<T>());
        let at = found.unwrap_or_else(|| {
            self.0.push(Box::new(T::default()));
            self.0.len() - 1
        });
        (&mut *self.0[at] as &mut dyn Any).downcast_mut().expect("the type was compared")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_value_of_each_type() {
        let mut own = OwnOptions::of(7_u32);
        assert_eq!((own.get::<u32>(), own.get::<u64>()), (7, 0));
        *own.get_mut::<u64>() = 9;
        *own.get_mut::<u32>() += 1;
        let copy = own.clone();
        *own.get_mut::<u32>() = 0;
        assert_eq!((copy.get::<u32>(), copy.get::<u64>()), (8, 9), "{copy:?}");
        assert_eq!(copy.0.len(), 2);
    }
}
