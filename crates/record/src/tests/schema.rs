//! The JSON form against `docs/formats/run.schema.json`.
//!
//! A checker for the part of JSON Schema that the page uses: `type`, `const`, `required`,
//! `properties`, `additionalProperties` (alone), `items`, `anyOf`, `$ref` into `$defs`, `minimum`
//! and lengths. A keyword it does not know fails the test, so that the page cannot say more than is
//! checked. Unlike a reader it refuses unknown keys: the page must describe all that is written.

use super::*;
use serde_json::{Value, json};

const SCHEMA_TEXT: &str = include_str!("../../../../docs/formats/run.schema.json");

fn schema() -> Value {
    serde_json::from_str(SCHEMA_TEXT).unwrap()
}

/// The first way in which `value` is not what `rule` asks for.
fn fault(root: &Value, rule: &Value, value: &Value, path: &str) -> Option<String> {
    for (keyword, argument) in rule.as_object().unwrap() {
        let fault = match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" => None,
            "$ref" => {
                let name = argument.as_str().unwrap().strip_prefix("#/$defs/").unwrap();
                fault(root, &root["$defs"][name], value, path)
            }
            "anyOf" => {
                let mut faults: Vec<Option<String>> = argument
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|rule| fault(root, rule, value, path))
                    .collect();
                if faults.contains(&None) { None } else { faults.pop().unwrap() }
            }
            "type" => is_none_of(argument, value).then(|| format!("{path} is not {argument}")),
            "const" => (argument != value).then(|| format!("{path} is not {argument}")),
            "required" => missing(argument, value, path),
            "properties" => properties(root, argument, value, path),
            "additionalProperties" => value
                .as_object()
                .into_iter()
                .flatten()
                .find_map(|(key, item)| fault(root, argument, item, &format!("{path}.{key}"))),
            "items" => value
                .as_array()
                .into_iter()
                .flatten()
                .enumerate()
                .find_map(|(i, item)| fault(root, argument, item, &format!("{path}[{i}]"))),
            "minimum" => {
                let low = value.as_f64().is_some_and(|value| value < argument.as_f64().unwrap());
                low.then(|| format!("{path} is below {argument}"))
            }
            "minItems" | "maxItems" | "minLength" | "maxLength" => length(keyword, argument, value)
                .then(|| format!("{path} breaks {keyword} {argument}")),
            _ => Some(format!("the checker does not know '{keyword}'")),
        };
        if fault.is_some() {
            return fault;
        }
    }
    None
}

fn is_none_of(types: &Value, value: &Value) -> bool {
    let is = |name: &Value| match name.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        other => panic!("no type '{other}'"),
    };
    match types {
        Value::Array(names) => !names.iter().any(is),
        name => !is(name),
    }
}

fn missing(keys: &Value, value: &Value, path: &str) -> Option<String> {
    let fields = value.as_object()?;
    let mut keys = keys.as_array().unwrap().iter().map(|key| key.as_str().unwrap());
    keys.find(|key| !fields.contains_key(*key)).map(|key| format!("{path} lacks '{key}'"))
}

fn properties(root: &Value, rules: &Value, value: &Value, path: &str) -> Option<String> {
    value.as_object()?.iter().find_map(|(key, value)| match rules.get(key) {
        Some(rule) => fault(root, rule, value, &format!("{path}.{key}")),
        None => Some(format!("{path}.{key} is not described")),
    })
}

fn length(keyword: &str, argument: &Value, value: &Value) -> bool {
    let limit = argument.as_u64().unwrap() as usize;
    match (value, keyword) {
        (Value::Array(items), "minItems") => items.len() < limit,
        (Value::Array(items), "maxItems") => items.len() > limit,
        (Value::String(text), "minLength") => text.len() < limit,
        (Value::String(text), "maxLength") => text.len() > limit,
        _ => false,
    }
}

fn check(value: &Value) -> Option<String> {
    let schema = schema();
    fault(&schema, &schema, value, "run")
}

fn written(run: &Run) -> Value {
    serde_json::from_str(&run.to_json().unwrap()).unwrap()
}

#[test]
fn what_is_written_is_what_the_schema_describes() {
    assert_eq!(check(&written(&run())), None);
    assert_eq!(check(&written(&with_rows())), None);
    assert_eq!(check(&written(&with_parts())), None);
    let mut bare = run();
    let header = &mut bare.header;
    (header.ops, header.secs, header.data_dir, bare.interrupted) = (None, None, None, None);
    let point = &mut bare.points[0];
    (point.cell.sweep, point.cell.rate) = (None, None);
    point.repeats.truncate(1);
    (point.repeats[0].unit, point.repeats[0].load) = (None, None);
    point.repeats[0].ops[0].first_error = None;
    point.summary = Summary::of(&point.repeats, &mut draw(1));
    assert_eq!(check(&written(&bare)), None);
}

/// A run of a script with phases, on a machine that counts.
fn with_parts() -> Run {
    let mut run = run();
    let part = Part { phase: "run".into(), role: None, workers: 3 };
    run.points[0].cell.part = Some(part);
    let repeat = &mut run.points[0].repeats[0];
    repeat.counters = Some(Counters { cycles: Some(7), ..Counters::default() });
    repeat.cgroup = Some(CgroupUse { cpu_s: Some(0.5), writes: Some(2), ..CgroupUse::default() });
    run
}

/// A run of a job: with the one key that only jobs have.
fn with_rows() -> Run {
    let mut run = run();
    run.points[0].repeats[0].rows = vec![row()];
    run
}

#[test]
fn rows_are_described() {
    let spoilers: [(&str, Value); 5] = [
        ("/test", json!(1)),
        ("/thread", json!(-1)),
        ("/fields", json!([])),
        ("/fields/puts", json!({})),
        ("/fields/errors", json!([1])),
    ];
    for (pointer, value) in spoilers {
        let mut run = written(&with_rows());
        *run.pointer_mut(&format!("/points/0/repeats/0/rows/0{pointer}")).unwrap() = value;
        assert!(check(&run).is_some(), "{pointer}");
    }
    for key in ["test", "thread", "fields"] {
        let mut run = written(&with_rows());
        let row = run.pointer_mut("/points/0/repeats/0/rows/0").unwrap();
        row.as_object_mut().unwrap().remove(key);
        assert!(check(&run).is_some(), "{key}");
    }
}

/// What stores on disk, and phases that somebody looked at, have beside.
#[test]
fn bytes_and_pace_are_described() {
    let mut run = run();
    let repeat = &mut run.points[0].repeats[0];
    repeat.aftermath = Some(Aftermath {
        settle_s: 0.5,
        is_settled: true,
        cpu_s: 1.5,
        written_bytes: Some(4096),
        disk_bytes: None,
    });
    repeat.footprint =
        Some(Footprint { memory_bytes: Some(1 << 20), disk_bytes: None, is_idle: true });
    repeat.load.as_mut().unwrap().durability = Some("none".to_owned());
    repeat.traffic = Some(Traffic { live_bytes: Some(7), ..Traffic::default() });
    repeat.pace = Some(Pace { is_steady: Some(false), drift: Some(0.5), ..Pace::default() });
    let whole = written(&run);
    assert_eq!(check(&whole), None);
    for (object, key) in [
        ("aftermath", "cpu_s"),
        ("footprint", "memory_bytes"),
        ("traffic", "read_bytes"),
        ("pace", "stalls"),
    ] {
        let mut less = whole.clone();
        let place = less.pointer_mut(&format!("/points/0/repeats/0/{object}")).unwrap();
        place.as_object_mut().unwrap().remove(key);
        assert!(check(&less).is_some(), "{object} without {key}");
    }
}

/// Each key that the schema requires is missed where it is taken away, and none is left out.
#[test]
fn every_key_is_required() {
    fn visit(value: &Value, at: &mut Vec<Value>, found: &mut Vec<Vec<Value>>) {
        let fields = value.as_object().into_iter().flatten();
        let items = value.as_array().into_iter().flatten().enumerate();
        let children = fields
            .map(|(key, value)| (json!(key), value))
            .chain(items.map(|(index, value)| (json!(index), value)));
        for (step, value) in children {
            at.push(step.clone());
            if step.is_string() {
                found.push(at.clone());
            }
            visit(value, at, found);
            at.pop();
        }
    }
    let whole = written(&run());
    let mut paths = Vec::new();
    visit(&whole, &mut Vec::new(), &mut paths);
    assert!(paths.len() > 100);
    for path in paths {
        let mut value = whole.clone();
        let (last, way) = path.split_last().unwrap();
        let parent = way.iter().fold(&mut value, |value, step| match step {
            Value::String(key) => &mut value[key.as_str()],
            index => &mut value[index.as_u64().unwrap() as usize],
        });
        parent.as_object_mut().unwrap().remove(last.as_str().unwrap());
        assert!(check(&value).is_some(), "{path:?} is not required");
    }
}

#[test]
fn what_is_not_described_is_found() {
    let spoilers: [(&str, Value); 8] = [
        ("/schema", json!(2)),
        ("/header/seed", json!("1")),
        ("/header/params/0", json!(["only a name"])),
        ("/points/0/cell/threads", json!(-1)),
        ("/points/0/repeats/0/trace_hashes", json!(["ff"])),
        ("/points/0/summary/response_ns", json!([1.0, 2.0])),
        ("/points/0/repeats/0/unit", json!({"offered_per_s": 1.0})),
        ("/failures/0/reason", json!(null)),
    ];
    for (pointer, value) in spoilers {
        let mut run = written(&run());
        *run.pointer_mut(pointer).unwrap() = value;
        assert!(check(&run).is_some(), "{pointer}");
    }
    let mut run = written(&run());
    run["header"]["colour"] = json!("blue");
    assert_eq!(check(&run).unwrap(), "run.header.colour is not described");
}
