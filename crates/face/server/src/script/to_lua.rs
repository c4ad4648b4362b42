//! Values of Lua from the bytes of a reply.

use mlua::{Lua, Table, Value};

use super::lifted::{Lifted, SLOT};

/// The value of the reply at the front of `bytes`.
pub(super) fn to_lua(lua: &Lua, bytes: &[u8], lifted: &Lifted<'_>) -> mlua::Result<Value> {
    Reader { lua, bytes, at: 0, lifted }.value()
}

/// The text of a reply that is an error.
pub(super) fn error_text(bytes: &[u8]) -> Option<&[u8]> {
    bytes.strip_prefix(b"-")?.strip_suffix(b"\r\n")
}

struct Reader<'a> {
    lua: &'a Lua,
    bytes: &'a [u8],
    at: usize,
    lifted: &'a Lifted<'a>,
}

impl<'a> Reader<'a> {
    fn value(&mut self) -> mlua::Result<Value> {
        self.lifted.check()?;
        let line = self.line()?;
        let (&mark, text) = line.split_first().ok_or_else(broken)?;
        match mark {
            b':' => Ok(Value::Number(number(text)? as f64)),
            b'$' => match self.body(text)? {
                Some(body) => self.string(body),
                None => Ok(Value::Boolean(false)),
            },
            b'*' => match number(text)? {
                -1 => Ok(Value::Boolean(false)),
                len => self.array(len),
            },
            b'+' => self.field("ok", text),
            b'-' => self.field("err", text),
            b'_' => Ok(Value::Nil),
            b'#' => Ok(Value::Boolean(text == b"t")),
            b',' => {
                let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
                self.wrap("double", Value::Number(number.ok_or_else(broken)?))
            }
            b'(' => self.field("big_number", text),
            b'=' => {
                let body = self.body(text)?.ok_or_else(broken)?;
                let (format, text) = body.split_at_checked(3).ok_or_else(broken)?;
                let parts = self.lua.create_table_with_capacity(0, 2)?;
                parts.raw_set("format", self.string(format)?)?;
                parts.raw_set("string", self.string(text.get(1..).unwrap_or_default())?)?;
                self.wrap("verbatim_string", Value::Table(parts))
            }
            b'%' => {
                let pairs = self.table()?;
                for _ in 0..number(text)? {
                    let key = self.key()?;
                    pairs.raw_set(key, self.value()?)?;
                }
                self.wrap("map", Value::Table(pairs))
            }
            // Attributes are not for scripts.
            b'|' => {
                for _ in 0..number(text)?.saturating_mul(2) {
                    self.value()?;
                }
                self.value()
            }
            b'~' => {
                let members = self.table()?;
                for _ in 0..number(text)? {
                    members.raw_set(self.key()?, true)?;
                }
                self.wrap("set", Value::Table(members))
            }
            _ => Err(broken()),
        }
    }

    /// A value that a table can have for a key. Numbers of replies are integers, or within tables.
    fn key(&mut self) -> mlua::Result<Value> {
        match self.value()? {
            Value::Nil => Err(broken()),
            key => Ok(key),
        }
    }

    fn array(&mut self, len: i64) -> mlua::Result<Value> {
        // Each element takes three bytes at least.
        let capacity = (len as usize).min((self.bytes.len() - self.at) / 3 + 1);
        self.lifted.check_room(capacity * SLOT)?;
        let array = self.lua.create_table_with_capacity(capacity, 0)?;
        for index in 1..=len {
            array.raw_set(index, self.value()?)?;
        }
        Ok(Value::Table(array))
    }

    fn table(&self) -> mlua::Result<Table> {
        self.lua.create_table()
    }

    fn string(&self, bytes: &[u8]) -> mlua::Result<Value> {
        self.lifted.check_room(bytes.len())?;
        self.lua.create_string(bytes).map(Value::String)
    }

    fn field(&self, name: &str, text: &[u8]) -> mlua::Result<Value> {
        self.wrap(name, self.string(text)?)
    }

    /// A table with one field.
    fn wrap(&self, name: &str, value: Value) -> mlua::Result<Value> {
        let table = self.lua.create_table_with_capacity(0, 1)?;
        table.raw_set(name, value)?;
        Ok(Value::Table(table))
    }

    fn line(&mut self) -> mlua::Result<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|&byte| byte == b'\r').ok_or_else(broken)?;
        self.at += (end + 2).min(rest.len());
        Ok(&rest[..end])
    }

    /// The bytes whose number is `len`, and the end of their line.
    fn body(&mut self, len: &[u8]) -> mlua::Result<Option<&'a [u8]>> {
        let Ok(len) = usize::try_from(number(len)?) else { return Ok(None) };
        let rest = &self.bytes[self.at..];
        let body = rest.get(..len).ok_or_else(broken)?;
        self.at += (len + 2).min(rest.len());
        Ok(Some(body))
    }
}

fn number(text: &[u8]) -> mlua::Result<i64> {
    crate::number::parse_i64(text).ok_or_else(broken)
}

/// Only a bug of a command makes such a reply.
fn broken() -> mlua::Error {
    mlua::Error::runtime("the reply cannot be read")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::desk::Desk;

    #[test]
    fn replies_are_values() {
        let lua = Lua::new();
        let check = lua.load(
            "local r = ... \
             return r[1] == 5 and r[2] == 'a\\r\\nb' and r[3] == false and r[4].ok == 'OK' and r[5].err == 'ERR x' \
             and r[6] == true and r[7].double == 1.5 and r[8].map.k == 1 and r[9].set.m == true \
             and r[10].big_number == '123' and r[11].verbatim_string.format == 'txt' \
             and r[11].verbatim_string.string == 'hi' and r[12] == 7 and #r == 12",
        );
        let bytes = b"*12\r\n:5\r\n$4\r\na\r\nb\r\n$-1\r\n+OK\r\n-ERR x\r\n#t\r\n,1.5\r\n%1\r\n$1\r\nk\r\n:1\r\n\
            ~1\r\n$1\r\nm\r\n(123\r\n=6\r\ntxt:hi\r\n|1\r\n+a\r\n:1\r\n:7\r\n";
        let desk = Desk::new();
        let lifted = || Lifted::new(&lua, &desk).unwrap();
        let value = to_lua(&lua, bytes, &lifted()).unwrap();
        assert!(check.into_function().unwrap().call::<bool>(value).unwrap());
        for len in 0..bytes.len() - 2 {
            assert!(to_lua(&lua, &bytes[..len], &lifted()).is_err(), "{len}");
        }
        for nil in [&b"%1\r\n_\r\n:1\r\n"[..], b"~1\r\n_\r\n"] {
            assert!(to_lua(&lua, nil, &lifted()).is_err());
        }
    }

    #[test]
    fn a_reply_that_the_state_has_no_room_for_is_refused_as_it_is_read() {
        let lua = Lua::new();
        let desk = Desk::new();
        desk.memory_max.set(lua.used_memory() + 100_000);
        lua.set_memory_limit(desk.memory_max.get()).unwrap();
        let bytes = [&b"*1000000\r\n"[..], &b"*0\r\n".repeat(1_000_000)].concat();
        let refused = to_lua(&lua, &bytes, &Lifted::new(&lua, &desk).unwrap());
        assert!(matches!(refused, Err(mlua::Error::MemoryError(_))));
        lua.gc_collect().unwrap();
        let grow = lua.load("local t = {} for n = 1, 1e6 do t[n] = {} end").exec();
        assert!(matches!(grow, Err(mlua::Error::MemoryError(_))), "the limit is there again");
    }
}
