//! `keyrack fs launch`, `serve`, `clients`, `merge`: commands that run as one job of several
//! processes, with long flags; nothing is removed unless that is asked for.

use super::{quota, quota_args, text};
use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use keyrack_console::{Failure, Outcome};
use keyrack_deltafs::job::Rendezvous;
use keyrack_fs_tools::bench::{Clients, measure_clients, parse_create_behind};
use keyrack_fs_tools::job::{
    Document, Merge, Server, StoreSettings, as_rank, environment, launch, merge, serve, token,
};
use keyrack_net::{Endpoint, TlsClient, TlsServer};
use keyrack_vfs::RealFs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

const STATUSES: &str = "Exit status: 0 done; 1 failed; 2 usage; 130 interrupted.";

const JSON_HELP: &str = "Write what is told there too, as one document";

const NAME_HELP: &str = "The name in the servers' certificates [default: localhost]";

/// The subcommands.
pub(super) fn commands() -> [Command; 4] {
    [
        Command::new("launch")
            .about("Start ranks of one job on this machine, as mpirun would")
            .after_help(STATUSES)
            .arg(number("ranks", "N", "How many ranks", "1").short('n'))
            .arg(option("json", "FILE", JSON_HELP))
            .arg(
                option("env", "NAME=VALUE", "A variable that the ranks get")
                    .action(ArgAction::Append),
            )
            .arg(
                Arg::new("command")
                    .value_name("COMMAND")
                    .help("The program and its arguments")
                    .required(true)
                    .trailing_var_arg(true)
                    .allow_hyphen_values(true)
                    .action(ArgAction::Append),
            ),
        job(Command::new("serve")
            .about("Serve a name space to many clients; each rank has a share of the names"))
        .arg(option("db", "DIR", "Where the logs are, in r0, r1, and so on").required(true))
        .arg(flag("read-only", "Serve what is there, merged or not, and change nothing"))
        .arg(option("ip", "ADDRESS", "Where to listen [default: 127.0.0.1]"))
        .arg(number("port", "PORT", "Where rank 0 says where all are", "10086"))
        .arg(option("unix", "PATH", "Serve at Unix sockets PATH.RANK.sock instead of TCP"))
        .arg(number("threads", "N", "Threads of each rank", "1"))
        .arg(flag("udp", "Take datagrams as well"))
        .arg(option("tls-cert", "FILE", "Certificates of the servers, PEM").requires("tls-key"))
        .arg(option("tls-key", "FILE", "Their private key, PEM").requires("tls-cert"))
        .arg(option("tls-ca", "FILE", "Whom servers trust among themselves").requires("tls-cert"))
        .arg(option("tls-name", "NAME", NAME_HELP).requires("tls-ca"))
        .arg(
            option("idle", "SECONDS", "End when nobody has called for so long; of one server")
                .value_parser(value_parser!(u64).range(1..=31_536_000)),
        )
        .args(quota_args())
        .arg(flag("dummy", "Answer without doing anything")),
        job(Command::new("clients")
            .about("Measure servers, or a name space in this process: files made, then asked for"))
        .arg(option("server", "ADDRESS", "Where rank 0 of the servers is"))
        .arg(option("db", "DIR", "A log for each rank in this process instead, in r0, r1, ..."))
        .arg(number("n", "N", "Files of each rank", "10000").value_parser(value_parser!(u64)))
        .arg(number("depth", "N", "Calls under way", "64"))
        .arg(number("batch", "N", "Names of a call", "1"))
        .arg(
            option("create-behind", "on|off|N", "Creates return at once, and so many go together")
                .default_value("off")
                .conflicts_with_all(["db", "batch", "unchecked"]),
        )
        .arg(flag("keep-going", "Count what fails instead of ending with it"))
        .arg(flag("shared", "All ranks in one directory"))
        .arg(flag("unchecked", "Make files without looking whether they are there"))
        .arg(flag("udp", "By datagrams"))
        .arg(option("tls-ca", "FILE", "Certificates to trust, PEM: speak TLS"))
        .arg(option("tls-name", "NAME", NAME_HELP).requires("tls-ca"))
        .arg(flag("existing", "Do not make the files: ask for those that are there")),
        job(Command::new("merge").about("Merge the logs of ranks into as many parts as wanted"))
            .arg(option("from", "DIR", "Where the logs are, in r0, r1, and so on").required(true))
            .arg(option("to", "DIR", "Where the parts go").required(true))
            .arg(
                option("parts", "N", "How many [default: as many as ranks]")
                    .value_parser(value_parser!(u32).range(1..=65_536)),
            )
            .arg(flag("replace", "Replace what an earlier merge has made there")),
    ]
}

fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

fn number(
    name: &'static str,
    value: &'static str,
    help: &'static str,
    default: &'static str,
) -> Arg {
    let parser: ValueParser = value_parser!(u32).into();
    option(name, value, help).default_value(default).value_parser(parser)
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

/// What every command has that is a job.
fn job(command: Command) -> Command {
    command
        .after_help(STATUSES)
        .arg(option("rendezvous", "HOST:PORT", "Where rank 0 meets the others, without a launcher"))
        .arg(option("json", "FILE", JSON_HELP))
        .arg(option("rank", "N", "This rank").value_parser(value_parser!(u32)))
        .arg(option("size", "N", "How many ranks").value_parser(value_parser!(u32)))
}

fn rendezvous(matches: &ArgMatches) -> Rendezvous {
    Rendezvous {
        address: matches.get_one::<String>("rendezvous").cloned(),
        rank: matches.get_one("rank").copied(),
        size: matches.get_one("size").copied(),
    }
}

/// Runs the subcommand of that name; nothing if it is not one of these.
pub(super) fn run(name: &str, matches: &ArgMatches) -> Option<Outcome> {
    let status = match name {
        "launch" => launched(matches),
        "serve" => served(matches),
        "clients" => clients(matches),
        "merge" => merged(matches),
        _ => return None,
    };
    Some(status.map_err(Failure::Usage))
}

fn whole(matches: &ArgMatches, name: &str) -> u32 {
    matches.get_one(name).copied().unwrap_or(0)
}

/// Whom this side trusts, if anybody was named.
fn trust(matches: &ArgMatches) -> Result<Option<TlsClient>, String> {
    let Some(ca) = text(matches, "tls-ca") else { return Ok(None) };
    if matches.get_flag("udp") {
        return Err(PLAIN_DATAGRAMS.to_owned());
    }
    let name = text(matches, "tls-name").unwrap_or("localhost");
    let trust = TlsClient::from_pem(&RealFs, Path::new(ca), name, None);
    trust.map(Some).map_err(|error| error.to_string())
}

const PLAIN_DATAGRAMS: &str = "datagrams are not encrypted: leave --udp or the certificates out";

/// What the servers show, and whom they trust among themselves.
fn certificates(matches: &ArgMatches) -> Result<Option<(TlsServer, Option<TlsClient>)>, String> {
    let (Some(cert), Some(key)) = (text(matches, "tls-cert"), text(matches, "tls-key")) else {
        return Ok(None);
    };
    if matches.get_flag("udp") {
        return Err(PLAIN_DATAGRAMS.to_owned());
    }
    let shown = TlsServer::from_pem(&RealFs, Path::new(cert), Path::new(key), None);
    Ok(Some((shown.map_err(|error| error.to_string())?, trust(matches)?)))
}

fn launched(matches: &ArgMatches) -> Result<u8, String> {
    let words = |name: &str| -> Vec<String> {
        matches.get_many::<String>(name).into_iter().flatten().cloned().collect()
    };
    let pairs = words("env").into_iter().map(|pair| match pair.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err(format!("--env {pair}: give NAME=VALUE")),
    });
    let environment = pairs.collect::<Result<_, String>>()?;
    Ok(launch(whole(matches, "ranks"), words("command"), environment, text(matches, "json")))
}

fn served(matches: &ArgMatches) -> Result<u8, String> {
    let ip = match text(matches, "ip") {
        Some(text) => text.parse().map_err(|_| format!("--ip {text}: give an address"))?,
        None => IpAddr::V4(Ipv4Addr::LOCALHOST),
    };
    let port = whole(matches, "port");
    let use_existing = matches.get_flag("read-only");
    let plan = Server {
        db: PathBuf::from(text(matches, "db").unwrap_or_default()),
        use_existing,
        keeps: true,
        chain: Vec::new(),
        is_dummy: matches.get_flag("dummy"),
        is_checked: true,
        ip,
        info_port: u16::try_from(port).map_err(|_| format!("--port {port}: they end at 65535"))?,
        unix: text(matches, "unix").map(PathBuf::from),
        ports: 1,
        threads: whole(matches, "threads").clamp(1, 64) as usize,
        workers: 0,
        is_udp: matches.get_flag("udp"),
        datagram_bytes: 1432,
        socket_bytes: (512 << 10, 512 << 10),
        token: token(),
        tls: certificates(matches)?,
        store: durable()?,
        quota: quota(matches),
        idle: matches.get_one("idle").map(|seconds| Duration::from_secs(*seconds)),
    };
    Ok(serve(&plan, &rendezvous(matches), text(matches, "json")))
}

/// What is acknowledged survives a kill, unless the environment says otherwise.
fn durable() -> Result<StoreSettings, String> {
    let with_log = |name: &str| {
        let is_log = name.ends_with("disable_write_ahead_logging");
        environment(name).or_else(|| (is_log && name.starts_with("KEYRACK")).then(|| "0".into()))
    };
    StoreSettings::new(&with_log, false)
}

fn clients(matches: &ArgMatches) -> Result<u8, String> {
    let (server, db) = (text(matches, "server"), text(matches, "db"));
    let (Some(place), true) = (server.or(db), server.is_some() != db.is_some()) else {
        return Err("give --server ADDRESS or --db DIR".to_owned());
    };
    let count: u64 = matches.get_one("n").copied().unwrap_or(0);
    let is_local = server.is_none();
    let batch = whole(matches, "batch").clamp(1, 4096) as usize;
    let use_existing = matches.get_flag("existing");
    let plan = Clients {
        count,
        writes: count,
        reads: count,
        write_phases: u32::from(!use_existing),
        read_phases: 1,
        interval: Duration::ZERO,
        is_shared: matches.get_flag("shared"),
        is_random: true,
        is_local,
        use_existing,
        is_checked: !matches.get_flag("unchecked"),
        is_bulk: false,
        batch: (batch > 1).then_some(batch),
        create_behind: parse_create_behind(text(matches, "create-behind").unwrap_or("off"))?,
        db: PathBuf::from(if is_local { place } else { "" }),
        data_bytes: 0,
        server: endpoint(if is_local { "127.0.0.1:10086" } else { place })?,
        server_text: place.to_owned(),
        timeout: Duration::from_secs(30),
        is_udp: matches.get_flag("udp"),
        token: token().unwrap_or_default(),
        tls: trust(matches)?,
        abort_on_errors: !matches.get_flag("keep-going"),
        monitor: None,
        shows_ranks: false,
        depth: whole(matches, "depth").clamp(1, 256) as usize,
        store: durable()?,
        bulk: StoreSettings::of_bulk_tables(&environment)?,
    };
    let document = Document::new("clients", text(matches, "json"));
    Ok(as_rank("keyrack fs clients", &rendezvous(matches), document, |job, document| {
        measure_clients(&plan, job, document)
    }))
}

/// Where the first server is.
fn endpoint(address: &str) -> Result<Endpoint, String> {
    let address = address.strip_prefix("tcp://").unwrap_or(address);
    address.parse().map_err(|error| format!("--server {address}: {error}"))
}

fn merged(matches: &ArgMatches) -> Result<u8, String> {
    let plan = Merge {
        source: PathBuf::from(text(matches, "from").unwrap_or_default()),
        target: PathBuf::from(text(matches, "to").unwrap_or_default()),
        replaces: matches.get_flag("replace"),
        parts: matches.get_one("parts").copied(),
        calls: None,
        store: durable()?,
    };
    let document = Document::new("merge", text(matches, "json"));
    Ok(as_rank("keyrack fs merge", &rendezvous(matches), document, |job, document| {
        merge(&plan, job, document)
    }))
}
