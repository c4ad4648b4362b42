-- The globals of scripts and of libraries, and the functions that run them.
--
-- A table that scripts must not change is seen through a proxy: an empty table whose metatable finds the fields in the
-- table that it stands for, and refuses to set any. The functions that look at a table itself, without its metatable,
-- know the proxies.
--
-- A function that Rust has made raises its errors as userdata, which `settle` turns into values of Lua before a script
-- sees them.
local native = ...

local error, type, tostring, next = error, type, tostring, next
local rawget, rawset, setmetatable, getmetatable = rawget, rawset, setmetatable, getmetatable
local pairs, pcall, xpcall, loadstring = pairs, pcall, xpcall, loadstring
local collectgarbage = collectgarbage
local select, tonumber, floor = select, tonumber, math.floor
local byte, find, sub, concat, resume = string.byte, string.find, string.sub, table.concat, coroutine.resume
local thrown, is_abort, place, check = native.thrown, native.is_abort, native.place, native.check
local bad_argument = native.bad_argument

local READONLY = "Attempt to modify a readonly table"

-- By proxy: the table that it stands for.
local real = {}

local function refuse()
  error(READONLY, 2)
end

-- The metatable of a protected table as scripts see it.
local sealed = {}
real[sealed] = {}
setmetatable(sealed, { __newindex = refuse, __metatable = sealed })

local function protect(table)
  local proxy = {}
  real[proxy] = table
  return setmetatable(proxy, { __index = table, __newindex = refuse, __metatable = sealed })
end

local function copy(table, names)
  local copied = {}
  for _, name in pairs(names) do
    copied[name] = table[name]
  end
  return copied
end

local globals = copy(_G, {
  "assert", "error", "gcinfo", "ipairs", "next", "rawequal", "select", "tonumber",
  "tostring", "type", "_VERSION",
})

-- A script that stops the collector, or sets its pace, does so for itself only.
local is_changed = false
function globals.collectgarbage(option, argument)
  is_changed = is_changed or option ~= nil and option ~= "count" and option ~= "collect"
  if option ~= "count" then
    check()
  end
  local result = collectgarbage(option, argument)
  return result
end

local function restart_collector()
  if is_changed then
    is_changed = false
    collectgarbage("restart")
    collectgarbage("setpause", 200)
    collectgarbage("setstepmul", 200)
  end
end

-- These raise the error of a wrong argument in the name of a function that stands for another one.
local function check_type(value, expected, number, name)
  if type(value) ~= expected then
    bad_argument(number, name, expected .. " expected, got " .. type(value))
  end
end

local function check_table(value, name)
  if type(value) ~= "table" then
    bad_argument(1, name, "table expected, got " .. type(value))
  end
end

-- A table that scripts may change: Lua's own functions would write to the proxy of one that they may not.
local function check_own_table(value, name)
  if type(value) ~= "table" then
    bad_argument(1, name, "table expected, got " .. type(value))
  end
  if real[value] then
    error(READONLY, 0)
  end
end

-- A whole number of 32 bits, or `default` for nil.
local function check_whole(value, default, number, name)
  if value == nil then
    return default
  end
  local whole = tonumber(value)
  if not whole then
    bad_argument(number, name, "number expected, got " .. type(value))
  end
  whole = whole >= 0 and floor(whole) or -floor(-whole)
  if not (whole >= -2147483648 and whole < 2147483647) then
    return whole > 0 and 2147483646 or -2147483648
  end
  return whole
end

local function check_text(value, number, name)
  if type(value) == "number" then
    return tostring(value)
  end
  if type(value) ~= "string" then
    bad_argument(number, name, "string expected, got " .. type(value))
  end
  return value
end

-- Texts of more bytes than this take so long in Lua's own functions that the clock is looked at before each.
local LONG = 10000

function globals.tonumber(...)
  local value, base = ...
  if type(value) == "string" and #value > LONG then
    check()
  end
  base = check_whole(base, 10, 2, "tonumber")
  if base == 10 then
    if value == nil and select("#", ...) == 0 then
      bad_argument(1, "tonumber", "value expected")
    end
    local number = tonumber(value)
    return number
  end
  value = check_text(value, 1, "tonumber")
  if base < 2 or base > 36 then
    bad_argument(2, "tonumber", "base out of range")
  end
  local number = tonumber(value, base)
  return number
end

-- As many values as the stack has places for. Lua's own function does not count beyond 31 bits.
local VALUES_MAX = 7990
local unpack = unpack
function globals.unpack(list, first, last)
  check_table(list, "unpack")
  first = check_whole(first, 1, 2, "unpack")
  last = check_whole(last, nil, 3, "unpack") or #list
  if last - first < VALUES_MAX then
    return unpack(list, first, last)
  end
  if first == 1 and last <= 7999 and last == #list then
    return unpack(list)
  end
  error("too many results to unpack", 2)
end

-- Only the tables of globals have a metatable as far as scripts see.
local environments = {}
function globals.getmetatable(value)
  if real[value] and not environments[value] then
    return nil
  end
  return (getmetatable(value))
end

function globals.setmetatable(table, metatable)
  check_table(table, "setmetatable")
  if metatable ~= nil and type(metatable) ~= "table" then
    bad_argument(2, "setmetatable", "nil or table expected")
  end
  if real[table] then
    error(READONLY, 0)
  end
  return setmetatable(table, metatable)
end

function globals.rawset(table, key, value)
  check_table(table, "rawset")
  if real[table] then
    error(READONLY, 0)
  end
  return rawset(table, key, value)
end

function globals.rawget(table, key)
  check_table(table, "rawget")
  return rawget(real[table] or table, key)
end

function globals.pairs(table)
  check_table(table, "pairs")
  local behind = real[table]
  if behind then
    return function(_, key) return next(behind, key) end, table, nil
  end
  return next, table, nil
end

local function settle(ok, ...)
  if ok then
    return ok, ...
  end
  local why = ...
  if type(why) == "userdata" then
    why = thrown(why)
  end
  return false, why
end

-- An error that is a table has its text in the field `err`, and that is what `pcall` returns.
local function settle_text(ok, ...)
  if ok then
    return ok, ...
  end
  local _, why = settle(false, ...)
  if type(why) == "table" and (type(why.err) == "string" or type(why.err) == "number") then
    why = why.err
  end
  return false, why
end

function globals.pcall(...)
  return settle_text(pcall(...))
end

function globals.xpcall(f, handler)
  return xpcall(f, function(why)
    if type(why) == "userdata" then
      why = thrown(why)
    end
    -- The script is stopped: no hook would stop the handler, which the hook calls.
    if type(why) == "userdata" and is_abort(why) then
      return why
    end
    return handler(why)
  end)
end

-- Compiled code, which begins with an escape character, is not trusted. The parser does not keep the name of the code
-- while it works: a local does.
local is_tangled = native.is_tangled
function globals.loadstring(code, name)
  code = check_text(code, 1, "loadstring")
  name = name == nil and code or check_text(name, 2, "loadstring")
  if byte(code) == 27 then
    return nil, "attempt to load a binary chunk"
  end
  if #code > 50000 and is_tangled(code) then
    return nil, "control structure too long"
  end
  local zero = find(name, "%z")
  local kept = zero and sub(name, 1, zero - 1) or name
  local f, why = loadstring(code, kept)
  return f, why
end

function globals.load(pieces, name)
  if type(pieces) ~= "function" then
    bad_argument(1, "load", "function expected, got " .. type(pieces))
  end
  local all = {}
  while true do
    local piece = pieces()
    if piece == nil or piece == "" then
      break
    end
    if type(piece) ~= "string" and type(piece) ~= "number" then
      return nil, "reader function must return a string"
    end
    all[#all + 1] = piece
  end
  return globals.loadstring(concat(all), name or "=(load)")
end

local coroutines = copy(coroutine, { "running", "status", "yield" })
-- Each coroutine counts its instructions anew.
local create, wrap = coroutine.create, coroutine.wrap
function coroutines.create(f)
  check()
  local made = create(f)
  return made
end

function coroutines.wrap(f)
  check()
  local made = wrap(f)
  return made
end

function coroutines.resume(...)
  return settle(resume(...))
end

local math = copy(math, {
  "abs", "acos", "asin", "atan", "atan2", "ceil", "cos", "cosh", "deg", "exp", "floor", "fmod", "frexp", "huge",
  "ldexp", "log", "log10", "max", "min", "mod", "modf", "pi", "pow", "rad", "sin", "sinh", "sqrt", "tan", "tanh",
})
math.random, math.randomseed = native.random, native.randomseed

-- Functions on texts: those that could work for long are of Rust.
local strings, text = string, native.text
for _, name in pairs({ "find", "format", "match", "rep", "lower", "upper", "reverse" }) do
  strings[name] = text[name]
end
local next_match, replace = text.next_match, text.replace

function strings.gmatch(subject, pattern)
  subject, pattern = check_text(subject, 1, "gmatch"), check_text(pattern, 2, "gmatch")
  local from, len = 0, #subject
  local function found(last, first, ...)
    if last then
      -- Behind an empty match, the next one is looked for from the next character on.
      from = last == first and last + 1 or last
    else
      from = len + 1
    end
    return ...
  end
  return function()
    if from > len then
      return nil
    end
    return found(next_match(subject, pattern, from))
  end
end
strings.gfind = strings.gmatch

-- The match, and the value that a table or the result of a function has for it.
local function value_for(by, last, first, ...)
  if not last then
    return nil
  end
  if type(by) == "table" then
    return last, first, by[(...)]
  end
  return last, first, (by(...))
end

function strings.gsub(subject, pattern, by, max)
  local kind = type(by)
  if kind == "string" or kind == "number" then
    return replace(subject, pattern, by, max)
  end
  subject, pattern = check_text(subject, 1, "gsub"), check_text(pattern, 2, "gsub")
  if kind ~= "function" and kind ~= "table" then
    bad_argument(3, "gsub", "string/function/table expected")
  end
  local len = #subject
  max = check_whole(max, len + 1, 4, "gsub")
  local is_anchored = byte(pattern) == 94
  local pieces, n, from, copied, count = {}, 0, 0, 0, 0
  while count < max and from <= len do
    local last, first, value = value_for(by, next_match(subject, pattern, from, is_anchored))
    if not last then
      break
    end
    count = count + 1
    if first > copied then
      n = n + 1
      pieces[n] = sub(subject, copied + 1, first)
    end
    if not value then
      value = sub(subject, first + 1, last)
    elseif type(value) ~= "string" and type(value) ~= "number" then
      error("invalid replacement value (a " .. type(value) .. ")", 2)
    end
    n = n + 1
    pieces[n] = value
    copied = last
    from = last == first and last + 1 or last
    if is_anchored then
      break
    end
  end
  pieces[n + 1] = sub(subject, copied + 1)
  return concat(pieces), count
end

getmetatable("").__metatable = protect({ __index = protect(strings) })

-- Functions on tables: those that could work for long do so here, where instructions are counted, unless there is
-- little to do.
local LITTLE = 10000
local tables = table
local insert, remove, sort = table.insert, table.remove, table.sort

local maxn = table.maxn
function tables.maxn(...)
  check()
  local result = maxn(...)
  return result
end

function tables.concat(...)
  check()
  local result = concat(...)
  return result
end

function tables.insert(list, ...)
  check_own_table(list, "insert")
  local count = select("#", ...)
  if count == 1 then
    return insert(list, (...))
  end
  if count ~= 2 then
    error("wrong number of arguments to 'insert'", 2)
  end
  local position, value = ...
  position = check_whole(position, position, 2, "insert")
  if position == nil then
    bad_argument(2, "insert", "number expected, got nil")
  end
  local behind = #list + 1
  if position >= behind - LITTLE then
    return insert(list, position, value)
  end
  for index = behind, position + 1, -1 do
    rawset(list, index, rawget(list, index - 1))
  end
  rawset(list, position, value)
end

function tables.remove(list, position)
  check_own_table(list, "remove")
  local last = #list
  position = check_whole(position, last, 2, "remove")
  if last - position <= LITTLE then
    return remove(list, position)
  end
  if position < 1 then
    return
  end
  local removed = rawget(list, position)
  for index = position, last - 1 do
    rawset(list, index, rawget(list, index + 1))
  end
  rawset(list, last, nil)
  return removed
end

function tables.foreach(list, f)
  check_table(list, "foreach")
  check_type(f, "function", 2, "foreach")
  for key, value in next, list do
    local result = f(key, value)
    if result ~= nil then
      return result
    end
  end
end

function tables.foreachi(list, f)
  check_table(list, "foreachi")
  check_type(f, "function", 2, "foreachi")
  for index = 1, #list do
    local result = f(index, rawget(list, index))
    if result ~= nil then
      return result
    end
  end
end

local function is_less(a, b)
  return a < b
end

-- Sorts the elements from `low` to `high` by quicksort, the smaller part first.
local function sort_part(list, low, high, less, level)
  while low < high do
    local middle = floor((low + high) / 2)
    local first, pivot, last = rawget(list, low), rawget(list, middle), rawget(list, high)
    if less(last, first) then
      first, last = last, first
    end
    if less(pivot, first) then
      first, pivot = pivot, first
    elseif less(last, pivot) then
      last, pivot = pivot, last
    end
    rawset(list, low, first)
    rawset(list, middle, pivot)
    rawset(list, high, last)
    if high - low <= 2 then
      return
    end
    local left, right = low, high
    repeat
      repeat
        left = left + 1
        if left > high then
          error("invalid order function for sorting", level)
        end
        first = rawget(list, left)
      until not less(first, pivot)
      repeat
        right = right - 1
        if right < low then
          error("invalid order function for sorting", level)
        end
        last = rawget(list, right)
      until not less(pivot, last)
      if left < right then
        rawset(list, left, last)
        rawset(list, right, first)
      end
    until left >= right
    if right - low < high - left then
      sort_part(list, low, left == right and right - 1 or right, less, level + 1)
      low = left == right and left + 1 or left
    else
      sort_part(list, left == right and left + 1 or left, high, less, level + 1)
      high = left == right and right - 1 or right
    end
  end
end

function tables.sort(list, less)
  check_own_table(list, "sort")
  if less ~= nil then
    check_type(less, "function", 2, "sort")
  end
  if #list <= 500 then
    return sort(list, less)
  end
  sort_part(list, 1, #list, less or is_less, 3)
end

globals.coroutine = protect(coroutines)
globals.math = protect(math)
globals.os = protect({ clock = native.clock })
globals.string = protect(strings)
globals.table = protect(tables)
for _, name in pairs({ "cjson", "cmsgpack", "struct", "bit" }) do
  globals[name] = protect(native[name])
end

local function absent(_, name)
  error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end

-- Scripts and libraries have globals of their own: KEYS and ARGV are of scripts alone.
local redis = protect(native.redis)
local function environment()
  local own = { redis = redis }
  for name, value in next, globals do
    own[name] = value
  end
  setmetatable(own, { __index = absent })
  local seen, metatable = {}, { __index = own, __newindex = refuse, __metatable = sealed }
  own._G = setmetatable(seen, metatable)
  real[seen] = own
  environments[seen] = true
  return own, seen, metatable
end

local script_globals, script_environment = environment()
local library_globals, library_environment, library_metatable = environment()

-- While it is loaded, a library sees no other globals than this table, and can do little else than register functions.
local loading_redis = {
  register_function = native.register_function, log = native.redis.log,
  REDIS_VERSION = native.redis.REDIS_VERSION, REDIS_VERSION_NUM = native.redis.REDIS_VERSION_NUM,
}
for _, level in pairs({ "LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING" }) do
  loading_redis[level] = native.redis[level]
end
loading_redis = protect(setmetatable(loading_redis, { __index = absent }))
local loading_globals = setmetatable({ redis = loading_redis }, { __index = absent })

-- Notes in an error where it was raised: in the innermost function that is a script's.
local function locate(why)
  if type(why) == "userdata" then
    why = thrown(why)
  end
  if type(why) == "userdata" then
    return why
  end
  local source, line = place(2)
  if type(why) ~= "table" or real[why] then
    why = { err = "ERR " .. tostring(why) }
  end
  if source then
    rawset(why, "source", source)
    rawset(why, "line", line)
  end
  return why
end

-- By digest: the functions of scripts. By library and name: those of libraries.
local scripts, libraries = {}, {}

local exports = {}
exports.script_environment = script_environment
exports.library_environment = library_environment

function exports.keep_script(digest, f)
  scripts[digest] = f
end

function exports.keep_library(name, functions)
  libraries[name] = functions
end

function exports.run_script(digest, keys, arguments)
  restart_collector()
  script_globals.KEYS, script_globals.ARGV = keys, arguments
  local ok, result = xpcall(scripts[digest], locate)
  return ok, result
end

function exports.run_function(library, name, keys, arguments)
  restart_collector()
  -- A load that was broken off may have left the other ones.
  library_metatable.__index = library_globals
  local f = libraries[library][name]
  local ok, result = xpcall(function() return f(keys, arguments) end, locate)
  return ok, result
end

function exports.run_library(f)
  library_metatable.__index = loading_globals
  local ok, result = xpcall(f, locate)
  library_metatable.__index = library_globals
  return ok, result
end

return exports
