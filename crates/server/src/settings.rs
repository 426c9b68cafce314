//! The table of settings. A configuration file may have each of them, and the command line, too,
//! with two dashes in front.

use crate::{Error, Eviction, Listen, LogFormat, Options, Result};
use keyrack_store::{parse_bool, parse_size};
use std::time::Duration;

/// A setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// The name of its value; empty for a yes or no.
    pub value: &'static str,
    /// Its purpose, in one sentence.
    pub about: &'static str,
    /// Its default, in words.
    pub default: &'static str,
    /// Whether it may occur more than once.
    pub repeats: bool,
    apply: fn(&mut Options, &str) -> std::result::Result<(), String>,
}

impl Setting {
    /// Sets it.
    ///
    /// # Errors
    /// [`Error::Usage`] with the setting's name, the value, and the accepted ones.
    pub fn apply(&self, options: &mut Options, value: &str) -> Result<()> {
        (self.apply)(options, value)
            .map_err(|message| Error::usage(format!("{}: {message}", self.name)))?;
        if !self.repeats {
            options.given.retain(|(name, _)| *name != self.name);
        }
        options.given.push((self.name, value.to_owned()));
        Ok(())
    }

    /// Its values in effect. A default that depends on the machine or on other settings is worked
    /// out.
    fn effective(&self, options: &Options) -> String {
        let given = options.given.iter().filter(|(name, _)| *name == self.name);
        let given: Vec<&str> = given.map(|(_, value)| value.as_str()).collect();
        match self.name {
            "listen" => {
                let all: Vec<String> = options.listen.iter().map(Listen::to_string).collect();
                all.join(",")
            }
            _ if !given.is_empty() => given.join(","),
            "threads" => options.loops().to_string(),
            "durability" => options.durability().to_string(),
            "request-max" => options.request_bytes_max().to_string(),
            "clients-memory-max" => options.clients_memory_bytes_max().to_string(),
            "value-max" => {
                let (one, other) =
                    (options.memcached_value_bytes_max(), options.resp_value_bytes_max());
                format!("memcached:{one},redis:{other}")
            }
            _ => self.default.split(',').next().unwrap_or_default().replace(' ', "-"),
        }
    }
}

/// A setting that occurs once.
const fn once(
    name: &'static str,
    value: &'static str,
    default: &'static str,
    about: &'static str,
    apply: fn(&mut Options, &str) -> std::result::Result<(), String>,
) -> Setting {
    Setting { name, value, about, default, repeats: false, apply }
}

/// Sets an option to a value that was read, if it could be.
fn set<T>(
    option: &mut T,
    value: std::result::Result<T, String>,
) -> std::result::Result<(), String> {
    *option = value?;
    Ok(())
}

/// All settings, in the order of the help.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "listen",
        value: "URL",
        about: "Where to listen: memcached://HOST:PORT, resp://, masstree://, mixed://; +tls, +udp \
                (masstree only) or +unix before the colon; unix:///PATH",
        default: "all three protocols on their ports of 127.0.0.1",
        repeats: true,
        apply: |options, value| {
            options.listen.push(Listen::parse(value).map_err(|error| error.to_string())?);
            Ok(())
        },
    },
    once(
        "engine",
        "NAME",
        "rowstore",
        "Engine of the rows: rowstore, masstree (in memory only), flodb",
        |options, value| set(&mut options.engine, Ok(value.to_owned())),
    ),
    once("data-dir", "DIR", "none", "Directory of the engine's files", |options, value| {
        set(&mut options.data_dir, Ok(Some(value.into())))
    }),
    once(
        "durability",
        "WHAT",
        "os",
        "What an acknowledged write survives: none, os, interval:MS, sync",
        |options, value| {
            let parsed = value.parse().map(Some).map_err(|error| format!("{error}"));
            set(&mut options.durability, parsed)
        },
    ),
    Setting {
        name: "log-dir",
        value: "DIR",
        about: "Log directory of rowstore, relative to data-dir; loops are assigned round robin",
        default: "log",
        repeats: true,
        apply: |options, value| {
            options.log_dirs.push(value.into());
            Ok(())
        },
    },
    once(
        "checkpoint-log",
        "SIZE",
        "256M",
        "Log after which rowstore writes a checkpoint; 0: only on request",
        |options, value| set(&mut options.checkpoint_log_bytes, parse_size(value)),
    ),
    once(
        "checkpoint-interval",
        "SECONDS",
        "0, off",
        "Time after which rowstore writes a checkpoint",
        |options, value| set(&mut options.checkpoint_interval, seconds(value)),
    ),
    once("memory-max", "SIZE", "no limit", "Memory of rows, with K, M, G", |options, value| {
        set(&mut options.memory_bytes_max, parse_size(value))
    }),
    once(
        "eviction",
        "WHAT",
        "noeviction",
        "What happens at memory-max: noeviction (writes fail), clock (rows not read lately go)",
        |options, value| {
            options.eviction = match value {
                "noeviction" | "none" => Eviction::None,
                "clock" => Eviction::Clock,
                _ => return Err(format!("'{value}' is not one of noeviction, clock")),
            };
            Ok(())
        },
    ),
    once("threads", "N", "one a processor", "Event loops", |options, value| {
        set(&mut options.threads, number(value))
    }),
    once("pin", "", "no", "Keeps each event loop on a processor of its own", |options, value| {
        set(&mut options.pin, parse_bool(value))
    }),
    once("cpus", "A,B,C", "all", "Processors for pin, assigned round robin", |options, value| {
        set(&mut options.cpus, value.split(',').map(number).collect())
    }),
    once(
        "password-file",
        "FILE",
        "none",
        "Asks clients for the password in the first line of FILE",
        |options, value| set(&mut options.password_file, Ok(Some(value.into()))),
    ),
    once("insecure", "", "no", "Allows other machines without a password", |options, value| {
        set(&mut options.insecure, parse_bool(value))
    }),
    once("tls-cert", "FILE", "none", "Certificate chain for +tls, PEM", |options, value| {
        set(&mut options.tls_cert, Ok(Some(value.into())))
    }),
    once("tls-key", "FILE", "none", "Key of the certificate, PEM", |options, value| {
        set(&mut options.tls_key, Ok(Some(value.into())))
    }),
    once(
        "tls-client-ca",
        "FILE",
        "none",
        "Asks clients for a certificate signed by these, PEM",
        |options, value| set(&mut options.tls_client_ca, Ok(Some(value.into()))),
    ),
    once(
        "admin",
        "HOST:PORT",
        "none",
        "Address of the live page and the metrics, over HTTP",
        |options, value| {
            let port = value.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
            if port.is_none() {
                return Err(format!("'{value}' is not HOST:PORT"));
            }
            options.admin = Some(value.to_owned());
            Ok(())
        },
    ),
    once("connections-max", "N", "16384", "Open connections", |options, value| {
        set(&mut options.connections_max, number(value))
    }),
    once(
        "transaction-work-max",
        "N",
        "25000",
        "Rows, and KiB of rows and replies, that one transaction of Redis may touch",
        |options, value| {
            set(&mut options.transaction_work_max, number(value).map(|count| count as u64))
        },
    ),
    once(
        "value-max",
        "SIZE",
        "memcached and Masstree 1M; Redis 512M, with rowstore 64M, with flodb 8M",
        "Largest value, up to 512M, with flodb 14M",
        |options, value| set(&mut options.value_bytes_max, parse_size(value).map(Some)),
    ),
    once(
        "request-max",
        "SIZE",
        "64M, or Redis' largest value and 64K",
        "Largest request",
        |options, value| set(&mut options.request_bytes_max, parse_size(value).map(Some)),
    ),
    once(
        "output-max",
        "SIZE",
        "16M",
        "Replies that may wait for a client to read them",
        |options, value| set(&mut options.output_bytes_max, parse_size(value)),
    ),
    once(
        "clients-memory-max",
        "SIZE",
        "1G, or more where request-max needs it",
        "Memory of all connections together: requests, replies, transactions",
        |options, value| set(&mut options.clients_memory_bytes_max, parse_size(value).map(Some)),
    ),
    once(
        "idle-timeout",
        "SECONDS",
        "0, never",
        "Closes a connection that sends nothing for this time",
        |options, value| set(&mut options.idle_timeout, seconds(value)),
    ),
    once(
        "request-timeout",
        "SECONDS",
        "60",
        "Closes a connection whose request stays incomplete",
        |options, value| set(&mut options.request_timeout, seconds(value)),
    ),
    once(
        "stalled-output-timeout",
        "SECONDS",
        "60",
        "Closes a connection that does not read its replies",
        |options, value| set(&mut options.stalled_output_timeout, seconds(value)),
    ),
    once(
        "shutdown-grace",
        "SECONDS",
        "5",
        "How long the shutdown waits for clients to read their replies",
        |options, value| set(&mut options.shutdown_grace, seconds(value)),
    ),
    once("unix-mode", "OCTAL", "600", "Mode of the files of unix sockets", |options, value| {
        set(
            &mut options.unix_mode,
            u32::from_str_radix(value, 8)
                .ok()
                .filter(|mode| *mode <= 0o777)
                .ok_or_else(|| format!("'{value}' is not a mode such as 600")),
        )
    }),
    once(
        "log-level",
        "LEVEL",
        "info",
        "Level of the log: error, warn, info, debug",
        |options, value| set(&mut options.log_level, value.parse()),
    ),
    once("log-format", "FORMAT", "text", "Format of the log: text, json", |options, value| {
        options.log_format = match value {
            "text" => LogFormat::Text,
            "json" => LogFormat::Json,
            _ => return Err(format!("'{value}' is not one of text, json")),
        };
        Ok(())
    }),
    once("debug-commands", "", "no", "Allows Redis' DEBUG", |options, value| {
        set(&mut options.debug_commands, parse_bool(value))
    }),
];

/// The setting of this name.
#[must_use]
pub fn setting(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

/// All settings in effect, as `name=value` with blanks between them. Of the password there is only
/// the file.
#[must_use]
pub fn effective(options: &Options) -> String {
    let one = |setting: &Setting| format!("{}={}", setting.name, setting.effective(options));
    SETTINGS.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// Applies the text of a configuration file: TOML, `name = value`, with a list for a setting that
/// repeats. Underscores count as dashes.
///
/// # Errors
/// [`Error::Usage`] with the name, or with the line of a syntax error.
pub fn apply_toml(options: &mut Options, text: &str) -> Result<()> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let place = error.span().map_or(0, |span| {
            text.bytes().take(span.start).filter(|byte| *byte == b'\n').count() + 1
        });
        Error::usage(format!("line {place}: {}", error.message().replace('\n', " ")))
    })?;
    for (key, value) in &table {
        let name = key.replace('_', "-");
        let Some(setting) = setting(&name) else {
            let names: Vec<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
            return Err(Error::usage(format!(
                "unknown setting '{key}'; the settings are {}",
                names.join(", ")
            )));
        };
        match value {
            toml::Value::Array(values) if setting.repeats => {
                for value in values {
                    setting.apply(options, &scalar(setting, value)?)?;
                }
            }
            value => setting.apply(options, &scalar(setting, value)?)?,
        }
    }
    Ok(())
}

fn scalar(setting: &Setting, value: &toml::Value) -> Result<String> {
    match value {
        toml::Value::String(text) => Ok(text.clone()),
        toml::Value::Integer(number) => Ok(number.to_string()),
        toml::Value::Boolean(yes) => Ok(yes.to_string()),
        other => Err(Error::usage(format!(
            "{}: the value must be text, a whole number, true or false (got {})",
            setting.name,
            other.type_str()
        ))),
    }
}

fn number(value: &str) -> std::result::Result<usize, String> {
    value.parse().map_err(|_| format!("'{value}' is not a whole number"))
}

fn seconds(value: &str) -> std::result::Result<Duration, String> {
    // A century is enough, and far from what durations can hold.
    let seconds = value.parse::<u64>().ok().filter(|seconds| *seconds < 3_200_000_000);
    seconds.map(Duration::from_secs).ok_or_else(|| format!("'{value}' is not a number of seconds"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyrack_store::Durability;

    #[test]
    fn a_file_says_what_flags_say() {
        let mut options = Options::default();
        let text = "# a comment\nlisten = ['memcached://127.0.0.1:1', 'unix:///run/k']\n\
                    engine = 'rowstore'\ndata_dir = '/var/lib/k'\ndurability = 'interval:50'\n\
                    memory-max = '1G'\neviction = 'clock'\nthreads = 3\ninsecure = true\n\
                    idle-timeout = 30\nunix-mode = '660'\ncpus = '2,0'\n\
                    checkpoint-interval = 90\n";
        apply_toml(&mut options, text).unwrap();
        assert_eq!(options.listen.len(), 2);
        assert_eq!(options.durability(), Durability::Interval(50));
        assert_eq!((options.memory_bytes_max, options.threads), (1 << 30, 3));
        assert_eq!((options.idle_timeout.as_secs(), options.unix_mode), (30, 0o660));
        assert_eq!((options.cpus, options.checkpoint_interval.as_secs()), (vec![2, 0], 90));
        assert!(options.insecure && options.eviction == Eviction::Clock);
    }

    #[test]
    fn settings_in_effect_are_those_given_and_the_defaults() {
        let mut options = Options::default();
        apply_toml(&mut options, "threads = 3\nlog-dir = ['a', 'b']\nidle-timeout = 9").unwrap();
        setting("idle-timeout").unwrap().apply(&mut options, "30").unwrap();
        options.password = crate::Password::new(b"sesame");
        options.complete().unwrap();
        let text = effective(&options);
        for part in [
            "listen=memcached://127.0.0.1:11211,resp://127.0.0.1:6379 engine=rowstore ",
            " durability=os log-dir=a,b ",
            " threads=3 pin=no ",
            " idle-timeout=30 ",
            " request-timeout=60 ",
            " connections-max=16384 ",
            " log-level=info ",
        ] {
            assert!(text.contains(part), "no '{part}' in {text}");
        }
        assert!(!text.contains("sesame"), "{text}");
        assert_eq!(text.split(' ').count(), SETTINGS.len(), "{text}");
    }

    #[test]
    fn what_a_file_cannot_say_is_named() {
        for (text, word) in [
            ("threads = 'many'", "threads"),
            ("threads = 1.5", "threads"),
            ("treads = 1", "unknown setting 'treads'"),
            ("memory-max = '1GB'", "memory-max"),
            ("a = 1\n\n = 3", "line 3"),
            ("threads = ['1']", "array"),
            ("[listen]\nx = 1", "table"),
            ("admin = '127.0.0.1'", "HOST:PORT"),
            ("unix-mode = '999'", "unix-mode"),
            ("cpus = '0,x'", "cpus"),
            ("idle-timeout = -1", "idle-timeout"),
        ] {
            let error = apply_toml(&mut Options::default(), text).unwrap_err().to_string();
            assert!(error.contains(word) && !error.contains('\n'), "{text}: {error}");
        }
    }

    #[test]
    fn names_are_there_once() {
        for setting in SETTINGS {
            let same = SETTINGS.iter().filter(|other| other.name == setting.name).count();
            assert_eq!(same, 1, "{}", setting.name);
        }
    }
}
