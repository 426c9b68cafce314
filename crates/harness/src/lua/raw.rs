//! The Lua stack behind a few methods: every call of the C API that the verbs make, one unsafe
//! operation each.
//!
//! **How errors travel.** A Lua error raised by C is a `longjmp` to the nearest protected call. It
//! skips the Rust frames in between, so no value with a destructor may be alive in them. The
//! methods marked *raises* may jump: in the case of memory running out, or because they are told
//! to. Callers keep all owned state in the [`super::bridge::Bridge`], which outlives the jump.
//!
//! **Validity.** A [`Stack`] is made from the state that Lua hands to a C function and lives no
//! longer than that call; a byte slice read from the stack lives as long as its slot is left alone.

use mlua::ffi;
use std::ffi::{c_char, c_int, c_void};

/// The C function type of Lua.
pub(super) type CFunction = unsafe extern "C-unwind" fn(*mut ffi::lua_State) -> c_int;

/// What a stack slot holds, as far as the verbs care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    None,
    Nil,
    Boolean,
    Handle,
    Number,
    String,
    Table,
    Function,
    Other,
}

/// A view of one Lua stack.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stack(*mut ffi::lua_State);

impl Stack {
    /// # Safety
    /// `state` is the live state of the running C function, and the view is not kept beyond it.
    pub(super) unsafe fn new(state: *mut ffi::lua_State) -> Self {
        Stack(state)
    }

    /// The pointer stored in upvalue `index` of the running C function; null when it is none.
    pub(super) fn upvalue_pointer(self, index: c_int) -> *mut c_void {
        // SAFETY: reads a pseudo-index of the running function.
        unsafe { ffi::lua_touserdata(self.0, ffi::lua_upvalueindex(index)) }
    }

    #[inline(always)]
    pub(super) fn kind(self, index: c_int) -> Kind {
        // SAFETY: any index is acceptable; beyond the top it answers LUA_TNONE.
        match unsafe { ffi::lua_type(self.0, index) } {
            ffi::LUA_TSTRING => Kind::String,
            ffi::LUA_TLIGHTUSERDATA => Kind::Handle,
            ffi::LUA_TNONE => Kind::None,
            ffi::LUA_TNIL => Kind::Nil,
            ffi::LUA_TBOOLEAN => Kind::Boolean,
            ffi::LUA_TNUMBER => Kind::Number,
            ffi::LUA_TTABLE => Kind::Table,
            ffi::LUA_TFUNCTION => Kind::Function,
            _ => Kind::Other,
        }
    }

    /// The name of the type in slot `index`, for messages.
    pub(super) fn type_name(self, index: c_int) -> &'static str {
        match self.kind(index) {
            Kind::None => "no value",
            Kind::Nil => "nil",
            Kind::Boolean => "a boolean",
            Kind::Handle => "a kb object",
            Kind::Number => "a number",
            Kind::String => "a string",
            Kind::Table => "a table",
            Kind::Function => "a function",
            Kind::Other => "a value of another type",
        }
    }

    /// The bytes of the string or number in slot `index`; a number is converted in place. `None`
    /// for other types. *Raises* when memory runs out during a conversion.
    #[inline(always)]
    pub(super) fn bytes<'a>(self, index: c_int) -> Option<&'a [u8]> {
        let mut len = 0;
        // SAFETY: the slot exists or the answer is null.
        let start = unsafe { ffi::lua_tolstring(self.0, index, &raw mut len) };
        if start.is_null() {
            return None;
        }
        // SAFETY: Lua returned this pointer for exactly `len` bytes, valid while the slot is.
        Some(unsafe { std::slice::from_raw_parts(start.cast::<u8>(), len) })
    }

    /// The integer in slot `index`, where it is one or a float or string with an integral value.
    #[inline]
    pub(super) fn integer(self, index: c_int) -> Option<i64> {
        let mut is_number = 0;
        // SAFETY: any slot is acceptable; the flag says whether it converted.
        let value = unsafe { ffi::lua_tointegerx(self.0, index, &raw mut is_number) };
        (is_number != 0).then_some(value as i64)
    }

    pub(super) fn boolean(self, index: c_int) -> bool {
        // SAFETY: any slot is acceptable.
        unsafe { ffi::lua_toboolean(self.0, index) != 0 }
    }

    /// The number packed into the light userdata in slot `index`.
    #[inline(always)]
    pub(super) fn handle(self, index: c_int) -> usize {
        // SAFETY: any slot is acceptable; other types answer null, which is no handle.
        unsafe { ffi::lua_touserdata(self.0, index) as usize }
    }

    /// The address of the light userdata in slot `index`.
    pub(super) fn pointer(self, index: c_int) -> *mut c_void {
        // SAFETY: any slot is acceptable.
        unsafe { ffi::lua_touserdata(self.0, index) }
    }

    pub(super) fn top(self) -> c_int {
        // SAFETY: reads the height of the stack.
        unsafe { ffi::lua_gettop(self.0) }
    }

    pub(super) fn set_top(self, top: c_int) {
        // SAFETY: `top` is a height that this function had before or nil-extends to.
        unsafe { ffi::lua_settop(self.0, top) }
    }

    /// Makes sure of room for `extra` values. Answers false when there is none.
    pub(super) fn reserve(self, extra: c_int) -> bool {
        // SAFETY: plain request.
        unsafe { ffi::lua_checkstack(self.0, extra) != 0 }
    }

    pub(super) fn push_nil(self) {
        // SAFETY: C functions start with 20 free slots, and loops reserve theirs.
        unsafe { ffi::lua_pushnil(self.0) }
    }

    pub(super) fn push_boolean(self, value: bool) {
        // SAFETY: as `push_nil`.
        unsafe { ffi::lua_pushboolean(self.0, c_int::from(value)) }
    }

    pub(super) fn push_integer(self, value: i64) {
        // SAFETY: as `push_nil`.
        unsafe { ffi::lua_pushinteger(self.0, value as ffi::lua_Integer) }
    }

    pub(super) fn push_number(self, value: f64) {
        // SAFETY: as `push_nil`.
        unsafe { ffi::lua_pushnumber(self.0, value) }
    }

    /// Copies `bytes` into a new Lua string. *Raises* when memory runs out.
    #[inline(always)]
    pub(super) fn push_bytes(self, bytes: &[u8]) {
        // SAFETY: pointer and length are those of a live slice, which Lua copies.
        unsafe {
            ffi::lua_pushlstring(self.0, bytes.as_ptr().cast::<c_char>(), bytes.len());
        }
    }

    pub(super) fn push_pointer(self, pointer: *mut c_void) {
        // SAFETY: as `push_nil`; whoever reads it back knows its type and lifetime.
        unsafe { ffi::lua_pushlightuserdata(self.0, pointer) }
    }

    /// Pushes a C function over the top `upvalues` values. *Raises* when memory runs out.
    pub(super) fn push_closure(self, function: CFunction, upvalues: c_int) {
        // SAFETY: that many values are on the stack.
        unsafe { ffi::lua_pushcclosure(self.0, function, upvalues) }
    }

    pub(super) fn push_copy(self, index: c_int) {
        // SAFETY: the slot exists.
        unsafe { ffi::lua_pushvalue(self.0, index) }
    }

    /// Pushes the registry's field `name`. *Raises* when memory runs out.
    pub(super) fn push_registry(self, name: &std::ffi::CStr) {
        // SAFETY: the registry is a table.
        unsafe {
            ffi::lua_getfield(self.0, ffi::LUA_REGISTRYINDEX, name.as_ptr());
        }
    }

    /// Replaces the value in slot `index` by what `tostring` makes of it. *Raises* what a
    /// `__tostring` of the script's own raises.
    pub(super) fn replace_by_text(self, index: c_int) {
        let mut len = 0;
        // SAFETY: the slot exists; the text is pushed.
        unsafe { ffi::luaL_tolstring(self.0, index, &raw mut len) };
        // SAFETY: the slot exists and a value is on top.
        unsafe { ffi::lua_replace(self.0, index) }
    }

    pub(super) fn push_upvalue(self, index: c_int) {
        // SAFETY: the running function was made with that upvalue.
        unsafe { ffi::lua_pushvalue(self.0, ffi::lua_upvalueindex(index)) }
    }

    /// Pushes a new table with room for `array` and `fields` entries. *Raises* when memory runs
    /// out.
    pub(super) fn push_table(self, array: usize, fields: usize) {
        let clamp = |n: usize| c_int::try_from(n).unwrap_or(c_int::MAX);
        // SAFETY: sizes are hints.
        unsafe { ffi::lua_createtable(self.0, clamp(array), clamp(fields)) }
    }

    /// `table[key] = value` without metamethods, popping key and value. *Raises* when memory runs
    /// out.
    pub(super) fn raw_set(self, table: c_int) {
        // SAFETY: slot `table` holds a table; two values are on the stack.
        unsafe { ffi::lua_rawset(self.0, table) }
    }

    /// `table[index] = value` without metamethods, popping the value. *Raises* when memory runs
    /// out.
    pub(super) fn raw_set_index(self, table: c_int, index: i64) {
        // SAFETY: slot `table` holds a table; a value is on the stack.
        unsafe { ffi::lua_rawseti(self.0, table, index as _) }
    }

    /// Pushes `table[index]` without metamethods.
    pub(super) fn raw_get_index(self, table: c_int, index: i64) {
        // SAFETY: slot `table` holds a table.
        unsafe {
            ffi::lua_rawgeti(self.0, table, index as _);
        }
    }

    /// Pushes `table[key]` without metamethods, popping the key.
    pub(super) fn raw_get(self, table: c_int) {
        // SAFETY: slot `table` holds a table; the key is on the stack.
        unsafe {
            ffi::lua_rawget(self.0, table);
        }
    }

    /// The border of the table in slot `index`, without metamethods.
    pub(super) fn raw_len(self, index: c_int) -> usize {
        // SAFETY: any slot is acceptable.
        unsafe { ffi::lua_rawlen(self.0, index) as usize }
    }

    /// Calls the function below its `arguments`, leaving `results`. *Raises* what it raises.
    pub(super) fn call(self, arguments: c_int, results: c_int) {
        // SAFETY: function and arguments are on the stack.
        unsafe { ffi::lua_call(self.0, arguments, results) }
    }

    /// As [`Stack::call`], protected: on failure leaves the error value and answers false.
    #[inline(always)]
    pub(super) fn protected_call(self, arguments: c_int, results: c_int, handler: c_int) -> bool {
        // SAFETY: function and arguments are on the stack; `handler` is 0 or a slot with a
        // function.
        unsafe { ffi::lua_pcall(self.0, arguments, results, handler) == ffi::LUA_OK }
    }

    /// Pushes the message in slot `index` with a traceback after it. *Raises* when memory runs out.
    pub(super) fn push_traceback(self, index: c_int) {
        // SAFETY: the answer is null or a NUL-terminated string that lives as long as the slot.
        let message = unsafe { ffi::lua_tolstring(self.0, index, std::ptr::null_mut()) };
        // SAFETY: a state may be its own subject; level 1 skips the handler itself.
        unsafe { ffi::luaL_traceback(self.0, self.0, message, 1) }
    }

    /// Pushes the place of the running line, `file:line:`, or an empty string.
    pub(super) fn push_where(self) {
        // SAFETY: level 1 is the function that called this one.
        unsafe { ffi::luaL_where(self.0, 1) }
    }

    /// Joins the top `count` strings into one. *Raises* when memory runs out.
    pub(super) fn concat(self, count: c_int) {
        // SAFETY: that many strings are on the stack.
        unsafe { ffi::lua_concat(self.0, count) }
    }

    /// Raises the value on top of the stack as an error. The caller's frame is skipped.
    pub(super) fn raise(self) -> ! {
        // SAFETY: an error value is on the stack, and the caller keeps nothing that needs dropping.
        unsafe { ffi::lua_error(self.0) }
    }

    /// Raises `message` with the place of the running line before it.
    pub(super) fn raise_here(self, message: &[u8]) -> ! {
        self.push_where();
        self.push_bytes(message);
        self.concat(2);
        self.raise()
    }

    /// How many parameters the Lua function in slot `index` declares; `None` for functions that
    /// take any number, C functions, and machines that do not tell.
    #[cfg(feature = "lua54")]
    pub(super) fn parameters(self, index: c_int) -> Option<u8> {
        self.push_copy(index);
        // SAFETY: an all-zero record is a valid value of this plain C structure.
        let mut record: ffi::lua_Debug = unsafe { std::mem::zeroed() };
        // SAFETY: the function is on top and popped by '>'; the record is live.
        let known = unsafe { ffi::lua_getinfo(self.0, c">u".as_ptr(), &raw mut record) };
        (known != 0 && record.isvararg == 0 && record.nparams > 0).then_some(record.nparams)
    }

    /// LuaJIT's `lua_getinfo` does not tell.
    #[cfg(not(feature = "lua54"))]
    pub(super) fn parameters(self, _index: c_int) -> Option<u8> {
        None
    }
}
