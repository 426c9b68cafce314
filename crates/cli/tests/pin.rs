//! Where workers run. A script writes down which CPUs the kernel lets each worker use, so what is
//! looked at is the thread and not what was said about it.

use crate::support::{Lab, Outcome};

/// Each worker keeps its line of the kernel's report in a file of its own.
const LOOK: &str = r#"
return {
  name = "look",
  run = function(ctx, iter)
    if iter > 1 then return end
    local out = assert(io.open("cpus-" .. ctx.thread, "w"))
    for line in io.lines("/proc/thread-self/status") do
      local cpus = line:match("^Cpus_allowed_list:%s*(%S+)")
      if cpus then assert(out:write(cpus)) end
    end
    assert(out:close())
  end,
}
"#;

/// The CPUs that this process may use, as text and one by one. Children inherit them.
fn allowed() -> (String, Vec<String>) {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let list = list.trim().to_owned();
    let one_by_one = list.split(',').flat_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
        (first..=last).map(|cpu| cpu.to_string())
    });
    let one_by_one = one_by_one.collect();
    (list, one_by_one)
}

fn lab() -> Lab {
    Lab::with("look.lua", LOOK)
}

/// Runs the script under exactly this command line and returns what each worker saw.
fn seen(lab: &Lab, command: &str, threads: usize) -> (Vec<String>, Outcome) {
    let line = format!("{command} --unsafe-lua --backend null --threads {threads} --ops {threads}");
    let out = lab.shell(&format!("{line} --report json:run.json,console look.lua")).exits(0);
    ((0..threads).map(|thread| lab.read(&format!("cpus-{thread}"))).collect(), out)
}

/// The affinity that the record of the last run has, as `on` or `off`.
fn recorded(lab: &Lab) -> String {
    let run = lab.json("run.json");
    let fields = run["probes"][0]["fields"].as_array().unwrap().iter();
    let row = fields.map(|field| (field[0].as_str().unwrap(), field[1].as_str().unwrap()));
    let text = row.into_iter().find(|(name, _)| *name == "cpu_affinity").unwrap().1;
    text.split(' ').next().unwrap().to_owned()
}

#[test]
fn each_worker_has_a_cpu_of_its_own_by_default() {
    let (lab, (_, cpus)) = (lab(), allowed());
    for threads in 1..=cpus.len().min(3) {
        let (seen, out) = seen(&lab, "$KEYRACK bench", threads);
        assert_eq!(seen, cpus[..threads], "{}", out.told());
        assert_eq!(recorded(&lab), "on");
        assert!(!out.stdout.contains("not pinned"), "{}", out.told());
    }
}

#[test]
fn more_workers_than_cpus_are_not_pinned_and_the_record_says_so() {
    let (lab, (all, cpus)) = (lab(), allowed());
    let threads = cpus.len() + 1;
    let (found, out) = seen(&lab, "$KEYRACK bench", threads);
    assert_eq!(found, vec![all; threads], "{}", out.told());
    assert_eq!(recorded(&lab), "off");
    let note = format!("workers not pinned: {threads} of them, {} CPUs", cpus.len());
    assert_eq!(lab.json("run.json")["points"][0]["notes"][0], note.as_str());
    out.says(&note);
    // Asked for, they are, and share.
    let (found, _) = seen(&lab, "$KEYRACK bench --pin", threads);
    assert_eq!(found[..threads - 1], cpus);
    assert_eq!(found[threads - 1], cpus[0]);
    assert_eq!(recorded(&lab), "on");
}

#[test]
fn the_way_out_is_a_flag_or_a_setting_and_the_last_word_counts() {
    let (lab, (all, cpus)) = (lab(), allowed());
    lab.write("no.cnf", "pin = false\n");
    lab.write("yes.cnf", "pin = yes\n");
    lab.write("auto.cnf", "pin = auto\n");
    let free = [
        "$KEYRACK bench --no-pin",
        "$KEYRACK bench --pin --no-pin",
        "$KEYRACK bench --config no.cnf",
        "$KEYRACK bench --config yes.cnf --no-pin",
    ];
    for command in free {
        let (found, out) = seen(&lab, command, 1);
        assert_eq!(found, [all.as_str()], "{}", out.told());
        assert!(!out.stdout.contains("not pinned"), "as asked for: {}", out.told());
        assert_eq!(recorded(&lab), "off");
    }
    let pinned = [
        "$KEYRACK bench --no-pin --pin",
        "$KEYRACK bench --config no.cnf --pin",
        "$KEYRACK bench --config auto.cnf",
    ];
    for command in pinned {
        let (found, out) = seen(&lab, command, 1);
        assert_eq!(found, cpus[..1], "{}", out.told());
    }
}

/// That tool pins only when it is told to.
#[test]
fn called_as_keybench_workers_are_free_unless_pinned() {
    let (lab, (all, cpus)) = (lab(), allowed());
    lab.keybench("--help").exits(0).warns("[default: off]");
    assert_eq!(seen(&lab, "./keybench", 1).0, [all]);
    assert_eq!(seen(&lab, "./keybench --pin", 1).0, cpus[..1]);
}

#[test]
fn a_replay_pins_as_the_run_did() {
    let (lab, (all, cpus)) = (lab(), allowed());
    for (flag, setting, expected) in
        [("", "auto", &cpus[0]), ("--pin", "yes", &cpus[0]), ("--no-pin", "no", &all)]
    {
        seen(&lab, &format!("$KEYRACK bench {flag} --save-config replay.cnf"), 1);
        let text = lab.read("replay.cnf");
        assert!(text.contains(&format!("\npin = {setting}\n")), "{text}");
        lab.shell("rm cpus-0 && $KEYRACK bench --config replay.cnf").exits(0);
        assert_eq!(&lab.read("cpus-0"), expected, "{setting}");
    }
}
