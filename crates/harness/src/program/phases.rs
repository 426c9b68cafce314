//! Phases and roles that a script declares.
//!
//! ```lua
//! return {
//!   name = "mine",
//!   load = function(ctx) end,          -- untimed, as ever
//!   phases = {                         -- one after the other, on one store
//!     { name = "fill", threads = 2, ops = 100000, run = function(ctx, iter) end },
//!     { name = "read", secs = 10, warmup = 1, roles = {      -- at the same time
//!         { name = "writer", threads = 1, rate = 1000, background = true, mix = { .. } },
//!         { name = "readers", threads = 3, run = function(ctx, iter) end },
//!     } },
//!   },
//! }
//! ```
//!
//! A phase without `roles` is one role without a name. What a role does not say it takes from its
//! phase (`ops`, `secs`) or from the run (`threads`, `ops` or `secs`, `arrivals`). A role in the
//! background has no end of its own: it ends when all others of its phase have.

use crate::lua::{ScriptError, Vm, check_fields};
use crate::settings::Bound;
use keyrack_workload::Arrivals;
use mlua::{Table, Value};

/// A declared phase.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PhasePlan {
    pub(crate) name: String,
    pub(crate) warmup_s: f64,
    /// One without a name where the phase declares none.
    pub(crate) roles: Vec<RolePlan>,
}

/// What some workers of a phase do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RolePlan {
    pub(crate) name: Option<String>,
    pub(crate) threads: Option<u32>,
    pub(crate) bound: Option<Bound>,
    /// Units per second of an open loop.
    pub(crate) rate: Option<f64>,
    pub(crate) arrivals: Option<Arrivals>,
    /// Whether it ends with the others.
    pub(crate) background: bool,
    /// Whether it is a mix, with no Lua in the loop.
    pub(crate) is_mix: bool,
}

/// Where a role stands in the file: indices from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RoleIndex {
    pub(crate) phase: usize,
    pub(crate) role: usize,
}

const PHASE_FIELDS: &[&str] =
    &["name", "threads", "ops", "secs", "warmup", "rate", "arrivals", "run", "mix", "roles"];
const ROLE_FIELDS: &[&str] =
    &["name", "threads", "ops", "secs", "rate", "arrivals", "background", "run", "mix"];
/// What belongs to the roles where there are some.
const OF_ROLES: &[&str] = &["threads", "rate", "arrivals", "run", "mix"];
const PHASES_MAX: usize = 64;
pub(super) const ROLES_MAX: usize = 64;
const THREADS_MAX: f64 = 1024.0;
const NAME_CHARS_MAX: usize = 63;

/// The phases that the table `phases` declares, checked.
pub(super) fn phases_of(phases: &Value) -> Result<Vec<PhasePlan>, String> {
    let Value::Table(phases) = phases else {
        return Err(format!("must be a list of tables, it is a {}", phases.type_name()));
    };
    let list = tables(phases, "phase", PHASES_MAX)?;
    let mut plans: Vec<PhasePlan> = Vec::new();
    for (table, number) in list.iter().zip(1..) {
        let name = name_of(table).map_err(|why| format!("phase {number}: {why}"))?;
        let within = |why: String| format!("phase '{name}': {why}");
        if plans.iter().any(|other| other.name == name) {
            return Err(within("the name stands twice; give each phase its own".to_owned()));
        }
        let (warmup_s, roles) = roles_of(table).map_err(within)?;
        plans.push(PhasePlan { name, warmup_s, roles });
    }
    Ok(plans)
}

fn roles_of(phase: &Table) -> Result<(f64, Vec<RolePlan>), String> {
    check_fields("field", phase, PHASE_FIELDS)?;
    let warmup_s = number(phase, "warmup", 0.0, 1e7)?.unwrap_or(0.0);
    let bound = bound_of(phase)?;
    let Value::Table(roles) = value(phase, "roles")? else {
        if !value(phase, "roles")?.is_nil() {
            return Err("roles must be a list of tables".to_owned());
        }
        let role = role_of(phase, None, bound)?;
        return Ok((warmup_s, vec![role]));
    };
    for field in OF_ROLES {
        if !value(phase, field)?.is_nil() {
            return Err(format!("{field} belongs into each of its roles"));
        }
    }
    let mut plans: Vec<RolePlan> = Vec::new();
    for (table, number) in tables(&roles, "role", ROLES_MAX)?.iter().zip(1..) {
        let name = name_of(table).map_err(|why| format!("role {number}: {why}"))?;
        let within = |why: String| format!("role '{name}': {why}");
        if plans.iter().any(|other| other.name.as_ref() == Some(&name)) {
            return Err(within("the name stands twice; give each role its own".to_owned()));
        }
        check_fields("field", table, ROLE_FIELDS).map_err(within)?;
        plans.push(role_of(table, Some(name.clone()), bound).map_err(within)?);
    }
    if plans.iter().all(|role| role.background) {
        return Err("every role is in the background, so nothing ends it; take background = true \
                    from one of them"
            .to_owned());
    }
    Ok((warmup_s, plans))
}

fn role_of(
    table: &Table,
    name: Option<String>,
    of_phase: Option<Bound>,
) -> Result<RolePlan, String> {
    let own = bound_of(table)?;
    let background = match value(table, "background")? {
        Value::Nil => false,
        Value::Boolean(flag) => flag,
        other => return Err(format!("background must be true or false, it is {}", shown(&other))),
    };
    if background && own.is_some() {
        return Err(
            "background = true ends with the other roles: leave ops and secs out".to_owned()
        );
    }
    let is_mix = match (value(table, "run")?, value(table, "mix")?) {
        (Value::Function(_), Value::Nil) => false,
        (Value::Nil, Value::Table(_) | Value::Function(_)) => true,
        (Value::Nil, Value::Nil) => return Err("it needs run = function or mix = table".to_owned()),
        (Value::Nil, mix) => return Err(format!("mix must be a table, it is {}", shown(&mix))),
        (run, Value::Nil) => return Err(format!("run must be a function, it is {}", shown(&run))),
        _ => return Err("give run or mix, not both".to_owned()),
    };
    let threads = number(table, "threads", 1.0, THREADS_MAX)?;
    if let Some(threads) = threads.filter(|threads| threads.fract() != 0.0) {
        return Err(format!("threads must be a whole number, it is {threads}"));
    }
    let arrivals = match value(table, "arrivals")? {
        Value::Nil => None,
        Value::String(text) => Some(
            Arrivals::parse(&text.to_string_lossy())
                .map_err(|error| format!("arrivals: {error}"))?,
        ),
        other => return Err(format!("arrivals must be a text, it is {}", shown(&other))),
    };
    let rate = number(table, "rate", 0.01, 1e8)?;
    if arrivals.is_some() && rate.is_none() {
        return Err("arrivals needs rate = units per second".to_owned());
    }
    Ok(RolePlan {
        name,
        threads: threads.map(|threads| threads as u32),
        bound: own.or(of_phase).filter(|_| !background),
        rate,
        arrivals,
        background,
        is_mix,
    })
}

/// The table of the role at `place`, which was checked when the file was read.
pub(super) fn table_at(vm: &Vm<'_>, place: RoleIndex) -> Result<Table, ScriptError> {
    let phases: Table = vm.workload().get("phases")?;
    let phase: Table = phases.get(place.phase + 1)?;
    Ok(match phase.get::<Option<Table>>("roles")? {
        Some(roles) => roles.get(place.role + 1)?,
        None => phase,
    })
}

fn tables(list: &Table, what: &str, most: usize) -> Result<Vec<Table>, String> {
    let mut found = Vec::new();
    let mut count = 0;
    for pair in list.pairs::<Value, Value>() {
        count += 1;
        let (key, item) = pair.map_err(|error| error.to_string())?;
        if !matches!(key, Value::Integer(_) | Value::Number(_)) {
            return Err(format!("a list of {what}s has no field {}", shown(&key)));
        }
        if !item.is_table() {
            return Err(format!("{what} {} must be a table, it is {}", shown(&key), shown(&item)));
        }
    }
    for item in list.sequence_values::<Table>() {
        found.push(item.map_err(|error| error.to_string())?);
    }
    if found.len() < count {
        let next = found.len() + 1;
        return Err(format!("{what} {next} is nil, and what follows it would never run"));
    }
    if found.is_empty() || found.len() > most {
        return Err(format!("1 to {most} {what}s can be declared, there are {}", found.len()));
    }
    Ok(found)
}

fn name_of(table: &Table) -> Result<String, String> {
    match value(table, "name")? {
        Value::String(name) if !name.as_bytes().is_empty() => {
            let name = name.to_string_lossy();
            match name.chars().count() {
                count if count > NAME_CHARS_MAX => {
                    Err(format!("name has {count} characters, at most {NAME_CHARS_MAX}"))
                }
                _ => Ok(name),
            }
        }
        _ => Err("it needs name = \"text\"".to_owned()),
    }
}

fn bound_of(table: &Table) -> Result<Option<Bound>, String> {
    let ops = number(table, "ops", 1.0, 9e15)?;
    if let Some(ops) = ops.filter(|ops| ops.fract() != 0.0) {
        return Err(format!("ops must be a whole number, it is {ops}"));
    }
    match (ops, number(table, "secs", 0.001, 1e7)?) {
        (Some(_), Some(_)) => Err("ops and secs contradict each other, give one".to_owned()),
        (Some(ops), None) => Ok(Some(Bound::Ops(ops as u64))),
        (None, secs) => Ok(secs.map(Bound::Secs)),
    }
}

fn number(table: &Table, field: &str, least: f64, most: f64) -> Result<Option<f64>, String> {
    let given = match value(table, field)? {
        Value::Nil => return Ok(None),
        Value::Integer(number) => number as f64,
        Value::Number(number) => number,
        other => return Err(format!("{field} must be a number, it is {}", shown(&other))),
    };
    if !(least..=most).contains(&given) {
        return Err(format!("{field} must be {least} to {most}, it is {given}"));
    }
    Ok(Some(given))
}

fn value(table: &Table, field: &str) -> Result<Value, String> {
    table.get::<Value>(field).map_err(|error| format!("{field}: {error}"))
}

/// A value for people: texts and numbers as they are, of the rest what they are.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("'{}'", text.to_string_lossy()),
        Value::Integer(number) => number.to_string(),
        Value::Number(number) => number.to_string(),
        Value::Boolean(flag) => flag.to_string(),
        other => format!("a {}", other.type_name()),
    }
}
