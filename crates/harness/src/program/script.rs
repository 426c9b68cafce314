//! Reading the table that a workload file returns.
//!
//! ```lua
//! return {
//!   name  = "mine",                -- label of every report
//!   load  = function(ctx) end,     -- seeds the store; or {key = K, value = V}
//!   setup = function(ctx) end,     -- once a worker, before anything is timed
//!   run   = function(ctx, iter) end,
//!   -- or, with no Lua in the loop:
//!   mix   = { {w = 50, op = "get", key = K}, {w = 50, op = "put", key = K, value = V} },
//!   -- or several of them, one after the other and at the same time, see `phases`:
//!   phases = { {name = "fill", ops = 1000, run = f}, {name = "read", roles = {..}} },
//!   batched = true,                -- sweeps ctx.batch over --batch
//!   -- or any other parameter:
//!   sweep = { param = "bytes", values = {64, 4096}, seed_per_value = true },
//! }
//! ```

use super::phases::phases_of;
use super::workload::{Kind, SWEEP_VALUES_MAX};
use super::{Sweep, Workload};
use crate::lua::{KeyObject, ScriptError, ValueObject, Vm, check_fields};
use keyrack_store::unknown;
use keyrack_workload::{
    KeyDistribution, KeySpec, LoadSpec, MixKeys, MixSpec, OpSpec, SizeDistribution, ValueSpec, Verb,
};
use mlua::{FromLua, LightUserData, Table, Value};

const FIELDS: &[&str] =
    &["name", "load", "setup", "run", "mix", "phases", "load_keys", "batched", "sweep", "about"];
const SWEEP_FIELDS: &[&str] = &["param", "values", "seed_per_value"];
/// What a swept parameter must not be called.
const CTX_FIELDS: &[&str] = &["users", "items", "ops", "seed", "thread", "threads", "iter"];
const MIX_FIELDS: &[&str] = &["w", "op", "key", "value", "limit", "batch"];
const LOAD_FIELDS: &[&str] = &["key", "value", "batch"];
const NAME_CHARS_MAX: usize = 127;

/// Fills `workload` from the table that the file returned.
pub(super) fn inspect(
    vm: &Vm<'_>,
    workload: &mut Workload,
    batch: &[i64],
) -> Result<(), ScriptError> {
    let path = workload.source.clone();
    inspect_table(vm.workload(), workload, batch).map_err(|why| match why {
        Refused::Because(why) => ScriptError::plain(format!("{path}: {why}")),
        Refused::ByLua(error) => error,
    })
}

/// Why a table is no workload.
enum Refused {
    Because(String),
    ByLua(ScriptError),
}

impl From<mlua::Error> for Refused {
    fn from(error: mlua::Error) -> Refused {
        Refused::ByLua(error.into())
    }
}

impl From<String> for Refused {
    fn from(why: String) -> Refused {
        Refused::Because(why)
    }
}

fn inspect_table(table: &Table, workload: &mut Workload, batch: &[i64]) -> Result<(), Refused> {
    for pair in table.pairs::<Value, Value>() {
        let name = pair?.0.to_string()?;
        if !FIELDS.contains(&name.as_str()) {
            return Err(unknown("field of the workload table", &name, FIELDS).into());
        }
    }
    match table.get::<Value>("name")? {
        Value::Nil => {}
        Value::String(name) => {
            workload.name = name.to_string_lossy().chars().take(NAME_CHARS_MAX).collect();
        }
        other => {
            return Err(format!("name must be a string, it is a {}", other.type_name()).into());
        }
    }
    let load = table.get::<Value>("load")?;
    workload.has_load = !load.is_nil();
    workload.load_keys = match table.get::<Value>("load_keys")? {
        Value::Nil => None,
        Value::Integer(count) if count >= 0 => Some(count as u64),
        Value::String(name) if name.to_string_lossy() == "items" => workload.settings.items,
        Value::String(name) if name.to_string_lossy() == "users" => workload.settings.users,
        _ => {
            return Err("load_keys must be a number of keys, 'items' or 'users'".to_owned().into());
        }
    };
    let phases = table.get::<Value>("phases")?;
    let has_phases = !phases.is_nil();
    if has_phases {
        workload.phases = phases_of(&phases).map_err(|why| format!("phases: {why}"))?;
    }
    let has_mix = workload.phases.iter().flat_map(|phase| &phase.roles).any(|role| role.is_mix);
    let (run, mix) = (table.get::<Value>("run")?, table.get::<Value>("mix")?);
    workload.kind = match (run, mix) {
        (Value::Nil, Value::Nil) if has_phases => kind_of_phases(&load, has_mix)?,
        _ if has_phases => {
            let why = "give run or mix to each of its phases, not beside them";
            return Err(why.to_owned().into());
        }
        (run, mix) => kind_of_loop(&run, &mix, &load)?,
    };
    workload.sweep = sweep_of_table(table, batch)?;
    if let Some(Sweep { param, .. }) = &workload.sweep
        && has_phases
        && ["phase", "role"].contains(&param.as_str())
    {
        let why = format!("sweep: param '{param}' is a field that ctx has with phases");
        return Err(why.into());
    }
    Ok(())
}

/// The kind of a file that declares phases.
fn kind_of_phases(load: &Value, has_mix: bool) -> Result<Kind, String> {
    match load {
        Value::Nil => Ok(Kind::Phases { load_function: false }),
        Value::Function(_) => Ok(Kind::Phases { load_function: true }),
        Value::Table(_) if has_mix => Ok(Kind::Phases { load_function: false }),
        _ => Err("load must be a function where no phase has a mix".to_owned()),
    }
}

/// The kind of a file with one loop, `run` or `mix`.
fn kind_of_loop(run: &Value, mix: &Value, load: &Value) -> Result<Kind, String> {
    match (run, mix) {
        (Value::Function(_), Value::Nil) => match load {
            Value::Nil | Value::Function(_) => Ok(Kind::Script),
            _ => Err("load must be a function when run is one".to_owned()),
        },
        (Value::Nil, Value::Table(_) | Value::Function(_)) => match load {
            Value::Nil | Value::Table(_) => Ok(Kind::Declarative { load_function: false }),
            Value::Function(_) => Ok(Kind::Declarative { load_function: true }),
            other => {
                Err(format!("load must be a function or a table, it is {}", other.type_name()))
            }
        },
        (Value::Nil, Value::Nil) => {
            Err("missing run() function: the returned table needs run, mix or phases".to_owned())
        }
        (Value::Function(_), _) => Err("give run or mix, not both".to_owned()),
        (run, Value::Nil) => Err(format!("run must be a function, it is a {}", run.type_name())),
        (_, mix) => Err(format!("mix must be a table, it is a {}", mix.type_name())),
    }
}

/// What a file sweeps, if anything.
fn sweep_of_table(table: &Table, batch: &[i64]) -> Result<Option<Sweep>, Refused> {
    let batched = !matches!(table.get::<Value>("batched")?, Value::Nil | Value::Boolean(false));
    match table.get::<Value>("sweep")? {
        Value::Nil if batched => Ok(Some(Sweep {
            param: "batch".to_owned(),
            values: batch.to_vec(),
            seed_per_value: false,
            is_batch: true,
        })),
        Value::Nil => Ok(None),
        Value::Table(_) if batched => Err("give batched or sweep, not both".to_owned().into()),
        Value::Table(sweep) => Ok(Some(sweep_of(&sweep).map_err(|why| format!("sweep: {why}"))?)),
        other => Err(format!("sweep must be a table, it is a {}", other.type_name()).into()),
    }
}

fn sweep_of(table: &Table) -> Result<Sweep, String> {
    let text = |error: mlua::Error| error.to_string();
    check_fields("field", table, SWEEP_FIELDS)?;
    let param = match table.get::<Value>("param").map_err(text)? {
        Value::String(name) if !name.as_bytes().is_empty() => name.to_string_lossy(),
        _ => return Err("it needs param = \"name\"".to_owned()),
    };
    if CTX_FIELDS.contains(&param.as_str()) {
        return Err(format!("param '{param}' is a field that ctx has already"));
    }
    let Value::Table(values) = table.get::<Value>("values").map_err(text)? else {
        return Err("it needs values = {...}".to_owned());
    };
    let mut list = Vec::new();
    for value in values.sequence_values::<Value>() {
        match value.map_err(text)? {
            Value::Integer(value) => list.push(value as _),
            Value::Number(value) if value.fract() == 0.0 && value.abs() < 9e15 => {
                list.push(value as i64);
            }
            other => {
                let shown = other.to_string().map_err(text)?;
                return Err(format!("value {shown} is not a whole number"));
            }
        }
    }
    if list.is_empty() || list.len() > SWEEP_VALUES_MAX {
        return Err(format!("it needs 1 to {SWEEP_VALUES_MAX} values, it has {}", list.len()));
    }
    if let Some(twice) = (1..list.len()).find(|&at| list[..at].contains(&list[at])) {
        return Err(format!("value {} stands twice", list[twice]));
    }
    let per_value = match table.get::<Value>("seed_per_value").map_err(text)? {
        Value::Nil => None,
        Value::Boolean(flag) => Some(flag),
        _ => return Err("seed_per_value must be true or false".to_owned()),
    };
    Ok(Sweep { param, values: list, seed_per_value: per_value.unwrap_or(true), is_batch: false })
}

/// The mix in `table`, which is the file's own or that of a role; `what` names it in refusals.
pub(super) fn mix_of(
    vm: &Vm<'_>,
    workload: &Workload,
    table: &Table,
    what: &str,
) -> Result<MixSpec, ScriptError> {
    let path = &workload.source;
    let refuse = |why: String| ScriptError::plain(format!("{path}: {what}: {why}"));
    let mix = match table.get::<Value>("mix")? {
        Value::Function(make) => make.call::<Value>(vm.ctx()?).map_err(|error| {
            let ScriptError { message, traceback } = ScriptError::from(error);
            ScriptError { traceback, ..refuse(message) }
        })?,
        given => given,
    };
    let Value::Table(mix) = mix else {
        return Err(refuse(format!("it must be a table, it is a {}", mix.type_name())));
    };
    let mut spec = Builder { vm, keys: Vec::new(), values: Vec::new() };
    let mut ops = Vec::new();
    for row in mix.sequence_values::<Value>() {
        let number = ops.len() + 1;
        let Value::Table(row) = row? else {
            return Err(refuse(format!("entry {number} is not a table")));
        };
        let refuse = |why: String| refuse(format!("entry {number}: {why}"));
        check_fields("field", &row, MIX_FIELDS).map_err(&refuse)?;
        let verb = match field::<Option<String>>(&row, "op").map_err(&refuse)? {
            Some(name) if name == "rmw" => Verb::Update,
            Some(name) => Verb::parse(&name).map_err(|error| refuse(error.to_string()))?,
            None => return Err(refuse("it has no op".to_owned())),
        };
        let keys = spec.keys(&row).map_err(&refuse)?;
        let value = if verb.takes_value() { spec.value(&row).map_err(&refuse)? } else { 0 };
        let limit = match row.get::<Value>("limit")? {
            Value::Nil => SizeDistribution::Fixed(100),
            Value::Integer(rows) if rows > 0 => SizeDistribution::Fixed(rows as u32),
            Value::String(text) => SizeDistribution::parse(&text.to_string_lossy())
                .map_err(|error| refuse(error.to_string()))?,
            _ => return Err(refuse("limit must be a number of rows or a size text".to_owned())),
        };
        let batch: Option<u32> = field(&row, "batch").map_err(&refuse)?;
        let weight: Option<f64> = field(&row, "w").map_err(&refuse)?;
        ops.push(OpSpec {
            verb,
            weight: weight.unwrap_or(1.0),
            keys,
            value,
            limit,
            batch: batch.unwrap_or(1),
        });
    }
    if ops.is_empty() {
        return Err(refuse(format!("{} has no entries", workload.name)));
    }
    let load = spec.load().map_err(&refuse)?;
    let Builder { keys, values, .. } = spec;
    let about = vm.workload().get::<Option<String>>("about")?.unwrap_or_default();
    Ok(MixSpec { name: workload.name.clone(), about, keys, values, ops, load })
}

/// Collects the lists that the operations refer to.
struct Builder<'a, 's> {
    vm: &'a Vm<'s>,
    keys: Vec<MixKeys>,
    values: Vec<ValueSpec>,
}

impl Builder<'_, '_> {
    fn key_object(&self, table: &Table) -> Result<&KeyObject, String> {
        let handle = table.get::<Option<LightUserData>>("key").ok().flatten();
        handle
            .and_then(|handle| self.vm.bridge.objects.keys.get(handle.0 as usize))
            .ok_or_else(|| "every entry needs key = a key source of kb".to_owned())
    }

    fn value_object(&self, table: &Table) -> Result<&ValueObject, String> {
        let handle = table.get::<Option<LightUserData>>("value").ok().flatten();
        handle
            .and_then(|handle| self.vm.bridge.objects.values.get(handle.0 as usize))
            .ok_or_else(|| "entries that write need value = a value source of kb".to_owned())
    }

    fn keys(&mut self, row: &Table) -> Result<usize, String> {
        let object = self.key_object(row)?;
        let keys = MixKeys { spec: object.spec.clone(), counter: object.counter.clone() };
        Ok(place(&mut self.keys, keys))
    }

    fn value(&mut self, row: &Table) -> Result<usize, String> {
        let spec = self.value_object(row)?.spec;
        Ok(place(&mut self.values, spec))
    }

    /// The load of a table: the given key source in order.
    fn load(&self) -> Result<Option<LoadSpec>, String> {
        let given = self.vm.workload().get::<Value>("load").map_err(|e| e.to_string())?;
        let Value::Table(load) = given else { return Ok(None) };
        check_fields("field", &load, LOAD_FIELDS)?;
        let batch: Option<u32> = field(&load, "batch")?;
        let keys = self.key_object(&load)?.spec.clone();
        Ok(Some(LoadSpec {
            keys: KeySpec { distribution: KeyDistribution::Sequential, scramble: false, ..keys },
            value: self.value_object(&load)?.spec,
            batch: batch.unwrap_or(512),
        }))
    }
}

/// The index of `item` in `list`, where it is added if it is new.
fn place<T: PartialEq>(list: &mut Vec<T>, item: T) -> usize {
    list.iter().position(|known| *known == item).unwrap_or_else(|| {
        list.push(item);
        list.len() - 1
    })
}

/// A field of a table; an error names it.
fn field<T: FromLua>(table: &Table, name: &str) -> Result<T, String> {
    table.get(name).map_err(|error| format!("field '{name}': {error}"))
}
