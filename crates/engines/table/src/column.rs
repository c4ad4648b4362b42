//! A column of a table, and the values that it takes.

use crate::{Error, Result, Type, ValueRef, value::canonical};

/// A column: its name, its type, and whether it may be NULL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    name: Box<str>,
    ty: Type,
    nullable: bool,
}

/// Whether the type is an integer of at most this many bits below its own 64.
fn signed_fits(ty: Type, integer: i64) -> bool {
    match ty {
        Type::Int8 => i8::try_from(integer).is_ok(),
        Type::Int16 => i16::try_from(integer).is_ok(),
        Type::Int32 => i32::try_from(integer).is_ok(),
        _ => true,
    }
}

fn unsigned_fits(ty: Type, integer: u64) -> bool {
    match ty {
        Type::UInt8 => u8::try_from(integer).is_ok(),
        Type::UInt16 => u16::try_from(integer).is_ok(),
        Type::UInt32 => u32::try_from(integer).is_ok(),
        _ => true,
    }
}

impl Column {
    /// A column. Its name and type are checked when a schema is built of it.
    #[must_use]
    pub fn new(name: impl Into<Box<str>>, ty: Type, nullable: bool) -> Self {
        Self { name: name.into(), ty, nullable }
    }

    /// Its name.
    #[must_use]
    #[inline]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its type.
    #[must_use]
    #[inline]
    pub fn ty(&self) -> Type {
        self.ty
    }

    /// Whether it may be NULL.
    #[must_use]
    #[inline]
    pub fn is_nullable(&self) -> bool {
        self.nullable
    }

    /// The value in the one form in which the column has it: integers with the column's sign, decimals at its scale,
    /// floats without a negative zero and with one NaN, text of `CHAR` without blanks at its end.
    ///
    /// # Errors
    /// [`Error::NullNotAllowed`], [`Error::TypeMismatch`], [`Error::OutOfRange`], [`Error::TooLong`].
    #[inline]
    pub fn conform<'a>(&self, value: ValueRef<'a>) -> Result<ValueRef<'a>> {
        match (self.ty, value) {
            (_, ValueRef::Null) => match self.nullable {
                true => Ok(value),
                false => Err(Error::NullNotAllowed { column: self.name.clone() }),
            },
            (
                Type::Int8 | Type::Int16 | Type::Int32 | Type::Int64,
                ValueRef::Int(_) | ValueRef::UInt(_),
            ) => {
                let integer = value.int().ok().filter(|&integer| signed_fits(self.ty, integer));
                integer.map(ValueRef::Int).ok_or_else(|| self.out_of_range(value))
            }
            (
                Type::UInt8 | Type::UInt16 | Type::UInt32 | Type::UInt64,
                ValueRef::Int(_) | ValueRef::UInt(_),
            ) => {
                let integer = value.uint().ok().filter(|&integer| unsigned_fits(self.ty, integer));
                integer.map(ValueRef::UInt).ok_or_else(|| self.out_of_range(value))
            }
            (Type::Float64, ValueRef::Float(float)) => Ok(ValueRef::Float(canonical(float))),
            (
                Type::Decimal(precision, scale),
                ValueRef::Decimal(_) | ValueRef::Int(_) | ValueRef::UInt(_),
            ) => {
                let exact = value.decimal()?.exactly(scale);
                let fitting = exact.filter(|decimal| decimal.has_at_most(precision));
                fitting.map(ValueRef::Decimal).ok_or_else(|| self.out_of_range(value))
            }
            (Type::Char(len), ValueRef::Text(text)) => {
                let text = text.trim_end_matches(' ');
                self.check_len(len, text.len()).map(|()| ValueRef::Text(text))
            }
            (Type::VarChar(len), ValueRef::Text(text)) => {
                self.check_len(len, text.len()).map(|()| value)
            }
            (Type::Bytes(len), ValueRef::Bytes(bytes)) => {
                self.check_len(len, bytes.len()).map(|()| value)
            }
            (Type::Timestamp, ValueRef::Timestamp(_)) => Ok(value),
            _ => Err(self.mismatch(value)),
        }
    }

    /// The value of a long column whose field has these bytes.
    ///
    /// # Errors
    /// [`Error::Damaged`], if they cannot be a value of this column.
    #[inline]
    pub fn long_value<'a>(&self, bytes: &'a [u8]) -> Result<ValueRef<'a>> {
        match self.ty {
            Type::Char(len) | Type::VarChar(len) if bytes.len() <= len as usize => {
                let text = std::str::from_utf8(bytes);
                text.map(ValueRef::Text).map_err(|_| self.damaged("its text is not UTF-8"))
            }
            Type::Bytes(len) if bytes.len() <= len as usize => Ok(ValueRef::Bytes(bytes)),
            _ => Err(self.damaged("its bytes are more than its type allows")),
        }
    }

    /// The column's value is damaged.
    #[cold]
    pub(crate) fn damaged(&self, why: &str) -> Error {
        Error::damaged(format!("a value of column {:?}", self.name), why)
    }

    #[inline]
    fn check_len(&self, len_max: u32, len: usize) -> Result<()> {
        match len <= len_max as usize {
            true => Ok(()),
            false => Err(Error::TooLong { column: self.name.clone(), ty: self.ty, len }),
        }
    }

    #[cold]
    fn out_of_range(&self, value: ValueRef<'_>) -> Error {
        let value = value.to_string().into();
        Error::OutOfRange { column: self.name.clone(), ty: self.ty, value }
    }

    #[cold]
    fn mismatch(&self, value: ValueRef<'_>) -> Error {
        Error::TypeMismatch { column: self.name.clone(), ty: self.ty, found: value.kind() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Decimal, Timestamp, values};

    #[test]
    fn a_value_that_does_not_fit_is_refused_with_the_reason() {
        let refused =
            |ty, value: ValueRef<'_>| Column::new("c", ty, false).conform(value).unwrap_err();
        let number = |mantissa, scale| ValueRef::from(Decimal::new(mantissa, scale).unwrap());
        for (ty, value) in [
            (Type::Int8, 128.into()),
            (Type::Int16, (-32_769).into()),
            (Type::Int32, (1_u64 << 31).into()),
            (Type::Int64, u64::MAX.into()),
            (Type::UInt8, (-1).into()),
            (Type::UInt16, 65_536.into()),
            (Type::UInt32, (1_i64 << 32).into()),
            (Type::UInt64, (-1).into()),
            (Type::Decimal(4, 2), 100.into()),
            (Type::Decimal(4, 2), number(1234, 3)),
            (Type::Decimal(38, 38), 1.into()),
        ] {
            assert!(matches!(refused(ty, value), Error::OutOfRange { .. }), "{ty} {value}");
        }
        for (ty, value) in [
            (Type::Char(2), "abc".into()),
            (Type::VarChar(2), "ab ".into()),
            (Type::VarChar(2), "éa".into()),
            (Type::Bytes(2), b"abc".into()),
        ] {
            assert!(matches!(refused(ty, value), Error::TooLong { len: 3, .. }), "{ty} {value}");
        }
        for (ty, value) in [
            (Type::Int8, "1".into()),
            (Type::Int64, 1.0.into()),
            (Type::Float64, 1.into()),
            (Type::Decimal(4, 2), 1.0.into()),
            (Type::VarChar(9), b"ab".into()),
            (Type::Bytes(9), "ab".into()),
            (Type::Timestamp, 1.into()),
        ] {
            assert!(matches!(refused(ty, value), Error::TypeMismatch { .. }), "{ty} {value}");
        }
        assert!(matches!(refused(Type::Int8, ValueRef::Null), Error::NullNotAllowed { .. }));
    }

    #[test]
    fn a_value_that_fits_gets_the_form_of_the_column() {
        let conform =
            |ty, value| format!("{:?}", Column::new("c", ty, true).conform(value).unwrap());
        let [int, uint, float, decimal, text, longer, moment] =
            values![7, 7_u64, -0.0, Decimal::new(1500, 3).unwrap(), "a ", "a    ", Timestamp(1)];
        assert_eq!(conform(Type::Int8, uint), "Int(7)");
        assert_eq!(conform(Type::UInt8, int), "UInt(7)");
        assert_eq!(conform(Type::Float64, float), "Float(0.0)");
        assert_eq!(conform(Type::Decimal(4, 2), decimal), "Decimal(1.50)");
        assert_eq!(conform(Type::Decimal(4, 2), int), "Decimal(7.00)");
        assert_eq!(conform(Type::Char(2), text), "Text(\"a\")");
        assert_eq!(conform(Type::Char(2), longer), "Text(\"a\")");
        assert_eq!(conform(Type::VarChar(2), text), "Text(\"a \")");
        assert_eq!(conform(Type::Timestamp, moment), "Timestamp(Timestamp(1))");
        assert_eq!(conform(Type::Int8, ValueRef::Null), "Null");
    }
}
