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
local byte, concat, resume = string.byte, table.concat, coroutine.resume
local thrown, is_abort, place = native.thrown, native.is_abort, native.place

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
  "tostring", "type", "unpack", "_VERSION",
})

-- A script that stops the collector, or sets its pace, does so for itself only.
local is_changed = false
function globals.collectgarbage(option, argument)
  is_changed = is_changed or option ~= nil and option ~= "count" and option ~= "collect"
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

-- Raises the error of a wrong argument in the name of a function that stands for another one.
local function check_table(value, name)
  if type(value) ~= "table" then
    error("bad argument #1 to '" .. name .. "' (table expected, got " .. type(value) .. ")", 3)
  end
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
    error("bad argument #2 to 'setmetatable' (nil or table expected)", 2)
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

-- Compiled code, which begins with an escape character, is not trusted.
function globals.loadstring(code, name)
  if type(code) == "string" and byte(code) == 27 then
    return nil, "attempt to load a binary chunk"
  end
  return loadstring(code, name or code)
end

function globals.load(pieces, name)
  if type(pieces) ~= "function" then
    error("bad argument #1 to 'load' (function expected, got " .. type(pieces) .. ")", 2)
  end
  local all = {}
  while true do
    local piece = pieces()
    if piece == nil or piece == "" then
      break
    end
    all[#all + 1] = piece
  end
  return globals.loadstring(concat(all), name or "=(load)")
end

local coroutines = copy(coroutine, { "create", "running", "status", "wrap", "yield" })
function coroutines.resume(...)
  return settle(resume(...))
end

local math = copy(math, {
  "abs", "acos", "asin", "atan", "atan2", "ceil", "cos", "cosh", "deg", "exp", "floor", "fmod", "frexp", "huge",
  "ldexp", "log", "log10", "max", "min", "mod", "modf", "pi", "pow", "rad", "sin", "sinh", "sqrt", "tan", "tanh",
})
math.random, math.randomseed = native.random, native.randomseed

local strings = string
getmetatable("").__metatable = protect({ __index = protect(strings) })

globals.coroutine = protect(coroutines)
globals.math = protect(math)
globals.os = protect({ clock = native.clock })
globals.string = protect(strings)
globals.table = protect(table)
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
  own._G = protect(own)
  environments[own._G] = true
  return own, own._G
end

local script_globals, script_environment = environment()
local library_globals, library_environment = environment()

-- While it is loaded, a library can do little else than register functions.
local loading_redis = {
  register_function = native.register_function, log = native.redis.log,
  REDIS_VERSION = native.redis.REDIS_VERSION, REDIS_VERSION_NUM = native.redis.REDIS_VERSION_NUM,
}
for _, level in pairs({ "LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING" }) do
  loading_redis[level] = native.redis[level]
end
loading_redis = protect(setmetatable(loading_redis, { __index = absent }))

-- Notes in an error where it was raised: in the innermost function that is a script's.
local function locate(why)
  if type(why) == "userdata" then
    why = thrown(why)
  end
  if type(why) == "userdata" then
    return why
  end
  local source, line = place(2)
  if type(why) ~= "table" then
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
  local f = libraries[library][name]
  local ok, result = xpcall(function() return f(keys, arguments) end, locate)
  return ok, result
end

function exports.run_library(f)
  library_globals.redis = loading_redis
  local ok, result = xpcall(f, locate)
  library_globals.redis = redis
  return ok, result
end

return exports
