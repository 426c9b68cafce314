//! The files of the compatibility page.
//!
//! ```text
//!   # keybench 0.1.0                 the title; paragraphs below it are copied to the page
//!   ## Options                       a heading
//!   $ keybench --ops 40 one.lua      a command that ends with status 0; `$2 ` one with status 2
//!   & null keyrack load ...          a server; {null} is its address, {null.port} its port
//!   ! null                           ends that server by SIGINT; rows look at what it printed
//!   % file                           a file; its lines follow, each behind two blanks
//!   %% dir                           a directory
//!   same :: --ops N                  rows of the command above them: what, and where it shows
//!   more :: --seed N :: out seed=*     :: also in the record
//!   differs :: --x :: err *refused*    :: because of this
//!   same :: :: out throughput: *       a line of output is its own name
//! ```

pub(super) struct System {
    pub(super) steps: Vec<Step>,
}

#[derive(Debug)]
pub(super) enum Step {
    /// A line of the page.
    Text(String),
    File {
        name: String,
        text: String,
    },
    Dir(String),
    Run {
        line: String,
        status: i32,
    },
    Start {
        name: String,
        line: String,
    },
    Stop(String),
    Row(Row),
}

#[derive(Debug)]
pub(super) struct Row {
    pub(super) item: String,
    pub(super) see: See,
    /// The word of the page and what is behind it.
    verdict: String,
}

/// Where a row shows.
#[derive(Debug)]
pub(super) enum See {
    /// The command has it, and was carried out or refused as its status says.
    Taken,
    Out(String),
    Err(String),
    File(String, String),
}

impl System {
    pub(super) fn read(file: &str, text: &str) -> System {
        let mut steps = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let place = format!("{file}.txt:{}: {line}", index + 1);
            match step(line, &mut steps) {
                Ok(()) => {}
                Err(why) => panic!("{place}: {why}"),
            }
        }
        System { steps }
    }

    /// The part of the page.
    pub(super) fn page(&self) -> String {
        let mut page = String::new();
        let mut is_table = false;
        for step in &self.steps {
            match step {
                Step::Text(line) => {
                    if std::mem::take(&mut is_table) {
                        page.push('\n');
                    }
                    page += line;
                    page.push('\n');
                }
                Step::Run { line, .. } | Step::Start { line, .. } => {
                    if std::mem::take(&mut is_table) {
                        page.push('\n');
                    }
                    page += &format!("```sh\n{}\n```\n\n", wrapped(&shown(line)));
                }
                Step::Stop(name) => {
                    if std::mem::take(&mut is_table) {
                        page.push('\n');
                    }
                    page += &format!("SIGINT to `{name}`\n\n");
                }
                Step::File { .. } | Step::Dir(_) => {}
                Step::Row(row) => {
                    if !std::mem::replace(&mut is_table, true) {
                        page += "| there | here |\n|---|---|\n";
                    }
                    let item = row.item.replace('|', "\\|");
                    page += &format!("| `{item}` | {} |\n", row.verdict);
                }
            }
        }
        (page + "\n").replace("\n\n\n", "\n\n")
    }
}

impl Row {
    /// Whether a word of a command is the option or the variable of the row.
    pub(super) fn is_named_by(&self, word: &str) -> bool {
        let name = |text: &str| text.split(['=', ' ']).next().unwrap_or(text).to_owned();
        let items: Vec<String> = self.item.split(", ").map(name).collect();
        word.split(',').any(|part| items.contains(&name(part)))
    }
}

/// A command over as many lines as the width of a page needs.
fn wrapped(line: &str) -> String {
    let (mut out, mut width) = (String::new(), 0);
    for word in line.split(' ') {
        if width + word.len() > 95 {
            out += " \\\n   ";
            width = 3;
        }
        if !out.is_empty() {
            out.push(' ');
        }
        out += word;
        width += word.len() + 1;
    }
    out
}

/// A command without the places of its servers.
fn shown(line: &str) -> String {
    let mut out = String::new();
    for (index, part) in line.split(['{', '}']).enumerate() {
        match (index % 2, part.ends_with(".port")) {
            (0, _) => out += part,
            (_, true) => out += "PORT",
            (_, false) => out += "ADDRESS",
        }
    }
    out
}

fn step(line: &str, steps: &mut Vec<Step>) -> Result<(), String> {
    let new = if let Some(heading) = line.strip_prefix('#') {
        // A heading of the file is one below the page's own.
        Step::Text(format!("##{heading}"))
    } else if let Some(rest) = line.strip_prefix('$') {
        let (status, line) = rest.split_once(' ').ok_or("a command is missing")?;
        let status = if status.is_empty() { Ok(0) } else { status.parse() };
        Step::Run { line: line.to_owned(), status: status.map_err(|_| "no status")? }
    } else if let Some(rest) = line.strip_prefix("& ") {
        let (name, line) = rest.split_once(' ').ok_or("a command is missing")?;
        Step::Start { name: name.to_owned(), line: line.to_owned() }
    } else if let Some(name) = line.strip_prefix("! ") {
        Step::Stop(name.to_owned())
    } else if let Some(name) = line.strip_prefix("%% ") {
        Step::Dir(name.to_owned())
    } else if let Some(name) = line.strip_prefix("% ") {
        Step::File { name: name.to_owned(), text: String::new() }
    } else if let Some(more) = line.strip_prefix("  ") {
        let Some(Step::File { text, .. }) = steps.last_mut() else { return Err("no file".into()) };
        text.push_str(more);
        text.push('\n');
        return Ok(());
    } else if let Some((verdict, rest)) = line.split_once(" :: ") {
        Step::Row(row(verdict, rest)?)
    } else {
        Step::Text(line.to_owned())
    };
    let is_blank = |step: Option<&Step>| matches!(step, Some(Step::Text(text)) if text.is_empty());
    let is_text = matches!(&new, Step::Text(text) if text.is_empty());
    // Blank lines part blocks of the file; on the page tables have their own.
    if is_text && (is_blank(steps.last()) || matches!(steps.last(), Some(Step::Row(_)))) {
        return Ok(());
    }
    steps.push(new);
    Ok(())
}

fn row(verdict: &str, rest: &str) -> Result<Row, String> {
    let mut parts = rest.splitn(3, "::").map(str::trim);
    let item = parts.next().unwrap_or_default();
    let see = parts.next().unwrap_or_default();
    let because = parts.next().unwrap_or_default();
    let (kind, pattern) = see.split_once(' ').unwrap_or((see, ""));
    let see = match kind {
        "" => See::Taken,
        "out" => See::Out(pattern.to_owned()),
        "err" => See::Err(pattern.to_owned()),
        "file" => {
            let (name, pattern) = pattern.split_once(' ').unwrap_or((pattern, "*"));
            See::File(name.to_owned(), pattern.to_owned())
        }
        other => return Err(format!("rows look at out, err or file, not at {other}")),
    };
    let item = if item.is_empty() { pattern } else { item };
    if item.is_empty() {
        return Err("a row of nothing".into());
    }
    let verdict = match (verdict, because.is_empty()) {
        ("same", true) => "same".to_owned(),
        ("more", false) => format!("more: {because}"),
        ("differs", false) => format!("differs: {because}"),
        _ => return Err("a row is same, more with what, or differs with why".into()),
    };
    Ok(Row { item: item.to_owned(), see, verdict })
}
