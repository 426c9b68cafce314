//! The flags of DeltaFS' own programs, with their defaults, as plans of ours.

use super::flags::{Kind, Spec, Values, parse};
use keyrack_console::say;
use keyrack_deltafs::Quota;
use keyrack_deltafs::job::Rendezvous;
use keyrack_fs_tools::bench::{Clients, measure_clients};
use keyrack_fs_tools::job::{
    Document, Merge, OriginalCalls, Server, StoreSettings, as_rank, check_original_names,
    environment, merge, serve, token, write_line,
};
use keyrack_net::Endpoint;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

const SERVER: &[Spec] = &[
    ("db", Kind::Text, ""),
    ("use_existing_fs", Kind::Bool, "0"),
    ("use_existing_db", Kind::Bool, "0"),
    ("readonly_db_chain", Kind::Text, ""),
    ("readonly_db_chain_table_cache_size", Kind::Number, "0"),
    ("readonly_db_chain_block_cache_size", Kind::Mega, "0M"),
    ("skip_fs_checks", Kind::Bool, "1"),
    ("dummy_svr", Kind::Bool, "0"),
    ("info_port", Kind::Number, "10086"),
    ("ip", Kind::Text, "127.0.0.1"),
    ("ports_per_rank", Kind::Number, "1"),
    ("rpc_threads", Kind::Number, "1"),
    ("rpc_worker_threads", Kind::Number, "0"),
    ("udp", Kind::Bool, "1"),
    ("udp_max_msgsz", Kind::Number, "1432"),
    ("udp_sndbuf", Kind::Kilo, "512k"),
    ("udp_rcvbuf", Kind::Kilo, "512k"),
    ("print_ips", Kind::Bool, "0"),
    ("disable_compaction", Kind::Bool, "0"),
    ("prefetch_compaction_input", Kind::Bool, "1"),
    ("env_use_rados", Kind::Bool, "0"),
    ("rados_force_syncio", Kind::Bool, "0"),
    // Ours: a file that gets what is told, too.
    ("json", Kind::Text, ""),
];

const CLIENT: &[Spec] = &[
    ("n", Kind::Number, "8"),
    ("writes", Kind::Number, ""),
    ("reads", Kind::Number, ""),
    ("write_phases", Kind::Number, "1"),
    ("read_phases", Kind::Number, "1"),
    ("step_interval", Kind::Number, "5"),
    ("share_dir", Kind::Bool, "0"),
    ("random_order", Kind::Bool, "1"),
    ("fs_use_local", Kind::Bool, "0"),
    ("use_existing_fs", Kind::Bool, "0"),
    ("use_existing_db", Kind::Bool, "0"),
    ("skip_fs_checks", Kind::Bool, "1"),
    ("bk", Kind::Bool, "0"),
    ("batched_writes", Kind::Bool, "0"),
    ("batch_size", Kind::Number, "16"),
    ("db", Kind::Text, "/tmp/deltafs_bm"),
    ("data_size", Kind::Kilo, "0k"),
    ("info_svr_uri", Kind::Text, "tcp://127.0.0.1:10086"),
    ("rpc_timeout", Kind::Number, "30"),
    ("udp", Kind::Bool, "1"),
    ("abort_on_errors", Kind::Bool, "1"),
    ("mon_uri", Kind::Text, ""),
    ("mon_interval", Kind::Number, "1"),
    ("print_ips", Kind::Bool, "0"),
    ("print_per_rank_stats", Kind::Bool, "0"),
    ("disable_compaction", Kind::Bool, "0"),
    ("prefetch_compaction_input", Kind::Bool, "1"),
    ("env_use_rados", Kind::Bool, "0"),
    ("rados_force_syncio", Kind::Bool, "0"),
    // Ours: a file that gets what is told, too.
    ("json", Kind::Text, ""),
    // Ours: how many calls are under way, where the original has one.
    ("rpc_depth", Kind::Number, "64"),
];

const COMPACTOR: &[Spec] = &[
    ("src_dir", Kind::Text, "/tmp/deltafs_bm"),
    ("dst_dir", Kind::Text, "/tmp/deltafs_bm_out"),
    ("dst_force_cleaning", Kind::Bool, "1"),
    ("rpc_batch_min", Kind::Number, "1"),
    ("rpc_batch_max", Kind::Number, "2"),
    ("rpc_async_sender_threads", Kind::Number, "16"),
    ("rpc_threads", Kind::Number, "1"),
    ("rpc_worker_threads", Kind::Number, "0"),
    ("rpc_timeout", Kind::Number, "30"),
    ("udp", Kind::Bool, "1"),
    ("udp_max_msgsz", Kind::Number, "1432"),
    ("udp_sndbuf", Kind::Kilo, "512k"),
    ("udp_rcvbuf", Kind::Kilo, "512k"),
    ("ip", Kind::Text, "127.0.0.1"),
    ("print_ips", Kind::Bool, "0"),
    ("env_use_rados", Kind::Bool, "0"),
    ("rados_force_syncio", Kind::Bool, "0"),
    // Ours: a file that gets what is told, too.
    ("json", Kind::Text, ""),
];

/// Reads the flags, makes a plan of them, and says what is wrong as the original does. With the
/// plan comes the file for the document.
fn planned<P>(
    argv: &[String],
    specs: &'static [Spec],
    plan: impl FnOnce(&Values) -> Result<P, String>,
) -> Result<(P, String), u8> {
    let arguments = argv.get(1..).unwrap_or_default();
    let planned = parse(arguments, specs).and_then(|values| {
        check_original_names(std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()))?;
        if values.flag("env_use_rados") {
            return Err("Invalid flag: '--env_use_rados=1' (stores are directories here)".into());
        }
        Ok((plan(&values)?, values.text("json").to_owned()))
    });
    planned.map_err(|line| {
        write_line(&format!("{line}\n"));
        keyrack_console::NO
    })
}

fn ip(values: &Values) -> Result<IpAddr, String> {
    let text = values.text("ip");
    let invalid = || format!("Invalid flag: '--ip={text}' (give an address of this machine)");
    let ip: IpAddr = text.parse().map_err(|_| invalid())?;
    if values.flag("print_ips") {
        say!("ip: {ip}");
    }
    Ok(ip)
}

fn socket_bytes(values: &Values) -> (u64, u64) {
    (values.number("udp_sndbuf"), values.number("udp_rcvbuf"))
}

/// `deltafs_bm_svr`.
pub(crate) fn server(argv: &[String]) -> u8 {
    let plan = planned(argv, SERVER, |values| {
        let use_existing = values.flag("use_existing_fs") || values.flag("use_existing_db");
        let (db, chain) = (values.text("db"), values.text("readonly_db_chain"));
        let db = match (db.is_empty(), use_existing) {
            (true, false) => "/tmp/deltafs_bm",
            (true, true) if chain.is_empty() => {
                return Err("Invalid flag: '--use_existing_fs=1' (name the store by --db=)".into());
            }
            _ => db,
        };
        let port = values.number("info_port");
        Ok(Server {
            db: PathBuf::from(db),
            use_existing,
            keeps: false,
            chain: chain.split(';').filter(|dir| !dir.is_empty()).map(PathBuf::from).collect(),
            is_dummy: values.flag("dummy_svr"),
            is_checked: !values.flag("skip_fs_checks"),
            ip: ip(values)?,
            info_port: u16::try_from(port)
                .map_err(|_| format!("Invalid flag: '--info_port={port}' (ports end at 65535)"))?,
            unix: None,
            ports: u32::try_from(values.number("ports_per_rank")).unwrap_or(1),
            threads: values.size("rpc_threads").clamp(1, 64),
            workers: values.size("rpc_worker_threads"),
            is_udp: values.flag("udp"),
            datagram_bytes: values.size("udp_max_msgsz").clamp(256, 65_000),
            socket_bytes: socket_bytes(values),
            token: token(),
            tls: None,
            store: StoreSettings::of_original(&environment, values.flag("disable_compaction"))?,
            quota: Quota::default(),
            idle: None,
        })
    });
    match plan {
        Err(status) => status,
        Ok((plan, json)) => serve(&plan, &Rendezvous::default(), Some(&json)),
    }
}

/// `deltafs_bm_cli`.
pub(crate) fn client(argv: &[String]) -> u8 {
    let plan = planned(argv, CLIENT, |values| {
        let count = values.number("n");
        let uri = values.text("info_svr_uri");
        let monitor = values.text("mon_uri");
        Ok(Clients {
            count,
            writes: values.number_or("writes", count),
            reads: values.number_or("reads", count),
            write_phases: u32::try_from(values.number("write_phases")).unwrap_or(u32::MAX),
            read_phases: u32::try_from(values.number("read_phases")).unwrap_or(u32::MAX),
            interval: Duration::from_secs(values.number("step_interval")),
            is_shared: values.flag("share_dir"),
            is_random: values.flag("random_order"),
            is_local: values.flag("fs_use_local"),
            use_existing: values.flag("use_existing_fs") || values.flag("use_existing_db"),
            is_checked: !values.flag("skip_fs_checks"),
            is_bulk: values.flag("bk"),
            batch: values.flag("batched_writes").then(|| values.size("batch_size").clamp(1, 4096)),
            create_behind: None,
            db: PathBuf::from(values.text("db")),
            data_bytes: values.size("data_size"),
            server: endpoint(uri)?,
            server_text: uri.to_owned(),
            timeout: Duration::from_secs(values.number("rpc_timeout").max(1)),
            is_udp: values.flag("udp"),
            token: token().unwrap_or_default(),
            tls: None,
            abort_on_errors: values.flag("abort_on_errors"),
            monitor: (!monitor.is_empty()).then(|| {
                (monitor.to_owned(), Duration::from_secs(values.number("mon_interval").max(1)))
            }),
            shows_ranks: values.flag("print_per_rank_stats"),
            depth: values.size("rpc_depth").clamp(1, 256),
            bulk: StoreSettings::of_bulk_tables(&environment)?,
            store: StoreSettings::of_original(&environment, values.flag("disable_compaction"))?,
        })
    });
    match plan {
        Err(status) => status,
        Ok((plan, json)) => {
            let document = Document::new("clients", Some(&json));
            as_rank("keyrack fs bench", &Rendezvous::default(), document, |job, document| {
                measure_clients(&plan, job, document)
            })
        }
    }
}

/// Where the first server is: `tcp://HOST:PORT`, or as endpoints are written elsewhere.
fn endpoint(uri: &str) -> Result<Endpoint, String> {
    let address = uri.strip_prefix("tcp://").unwrap_or(uri);
    let parsed = address.parse::<Endpoint>();
    parsed.map_err(|error| format!("Invalid flag: '--info_svr_uri={uri}' ({error})"))
}

/// `parallel_compactor`.
pub(crate) fn compactor(argv: &[String]) -> u8 {
    let plan = planned(argv, COMPACTOR, |values| {
        Ok(Merge {
            source: PathBuf::from(values.text("src_dir")),
            target: PathBuf::from(values.text("dst_dir")),
            replaces: values.flag("dst_force_cleaning"),
            parts: None,
            calls: Some(OriginalCalls {
                ip: ip(values)?.to_string(),
                is_udp: values.flag("udp"),
                datagram_bytes: values.number("udp_max_msgsz"),
                socket_bytes: socket_bytes(values),
                batch: (values.number("rpc_batch_min"), values.number("rpc_batch_max")),
                timeout_s: values.number("rpc_timeout"),
                senders: values.number("rpc_async_sender_threads"),
                threads: (values.number("rpc_threads"), values.number("rpc_worker_threads")),
            }),
            store: StoreSettings::of_original(&environment, false)?,
        })
    });
    match plan {
        Err(status) => status,
        Ok((plan, json)) => {
            let document = Document::new("merge", Some(&json));
            as_rank("keyrack fs merge", &Rendezvous::default(), document, |job, document| {
                merge(&plan, job, document)
            })
        }
    }
}
