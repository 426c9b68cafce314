//! Ranks under Slurm: a cluster of one node, which the test starts and stops.

use crate::job::{PART, has_program, runs};
use keyrack_vfs::{Fs, RealFs};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The daemons of Slurm, in a directory of their own.
struct Cluster {
    dir: tempfile::TempDir,
    daemons: Vec<Child>,
}

impl Cluster {
    fn start() -> Cluster {
        let dir = tempfile::tempdir().unwrap();
        let mut cluster = Cluster { dir, daemons: Vec::new() };
        let at = |name: &str| cluster.path(name);
        for name in ["munge", "state", "spool"] {
            RealFs.create_dir(&at(name)).unwrap();
        }
        let key: Vec<u8> = (0..=255_u8).cycle().take(1024).collect();
        RealFs.write_atomic(&at("munge/key"), &key).unwrap();
        run(Command::new("chmod").arg("0700").arg(at("munge")));
        run(Command::new("chmod").arg("0400").arg(at("munge/key")));
        RealFs.write_atomic(&at("slurm.conf"), cluster.configuration().as_bytes()).unwrap();
        let munge = [
            ("key-file", "key"),
            ("socket", "socket"),
            ("pid-file", "pid"),
            ("log-file", "log"),
            ("seed-file", "seed"),
        ];
        let mut munged = Command::new("munged");
        munged.args(["--foreground", "--force"]);
        for (option, name) in munge {
            munged.arg(format!("--{option}={}", at(&format!("munge/{name}")).display()));
        }
        let [mut controller, mut node] = ["slurmctld", "slurmd"].map(Command::new);
        controller.args(["-D", "-i", "-f"]).arg(at("slurm.conf"));
        node.args(["-D", "-f"]).arg(at("slurm.conf"));
        for daemon in [&mut munged, &mut controller, &mut node] {
            cluster
                .daemons
                .push(daemon.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        }
        cluster
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn configuration(&self) -> String {
        let output = Command::new("uname").arg("-n").output().unwrap();
        let host = String::from_utf8(output.stdout).unwrap();
        let host = host.trim().split('.').next().unwrap();
        let [controller_port, node_port] = free_ports();
        let at = |name: &str| self.path(name).display().to_string();
        let (socket, state, spool) = (at("munge/socket"), at("state"), at("spool"));
        let (controller, node) = (at("controller"), at("node"));
        format!(
            "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\n\
             SlurmctldPort={controller_port}\nSlurmdPort={node_port}\n\
             AuthType=auth/munge\nCredType=cred/munge\nAuthInfo=socket={socket}\n\
             StateSaveLocation={state}\nSlurmdSpoolDir={spool}\n\
             SlurmctldPidFile={controller}.pid\nSlurmdPidFile={node}.pid\n\
             SlurmctldLogFile={controller}.log\nSlurmdLogFile={node}.log\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSwitchType=switch/none\n\
             SelectType=select/cons_tres\nMpiDefault=none\nReturnToService=2\n\
             NodeName={host} NodeAddr=127.0.0.1 CPUs=1 State=UNKNOWN\n\
             PartitionName=all Nodes={host} Default=YES State=UP OverSubscribe=FORCE:4\n"
        )
    }

    /// `srun`, which waits for a controller that is not there yet.
    fn srun(&self, options: &[&str]) -> Command {
        let mut srun = Command::new("srun");
        srun.env("SLURM_CONF", self.path("slurm.conf"));
        srun.args(["--overcommit", "--unbuffered"]).args(options).current_dir(Path::new("/"));
        srun
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            // One that has ended needs no signal.
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

#[track_caller]
fn run(command: &mut Command) {
    assert!(command.status().unwrap().success(), "{command:?}");
}

/// Two ports that nobody has just now.
fn free_ports() -> [u16; 2] {
    let listeners = [0, 1].map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

/// By PMI-1, by PMIx, and by the variables of `srun` and a directory.
#[test]
fn processes_of_slurm_find_each_other() {
    let test = "processes_of_slurm_find_each_other";
    if !["munged", "slurmctld", "slurmd", "srun"].iter().all(|name| has_program(test, name)) {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED {test}: the daemon of a node needs root");
        return;
    }
    let cluster = Cluster::start();
    // The first call comes before the daemons may be ready.
    let ready = (0..50).any(|_| {
        let mut probe = cluster.srun(&["-n", "1", "--immediate=5", "true"]);
        probe.output().unwrap().status.success()
    });
    assert!(ready, "{}", RealFs.read_to_string(&cluster.path("controller.log")).unwrap());
    for mpi in ["none", "pmi2"] {
        let plugin = format!("--mpi={mpi}");
        runs(cluster.srun(&["-n", "3", &plugin]).env(PART, "sum"));
    }
    let probe = cluster.srun(&["-n", "1", "--mpi=pmix", "true"]).output().unwrap();
    let said = String::from_utf8_lossy(&probe.stderr);
    // The plugin looks for the name that only the package for developers has (libpmix-dev).
    if said.contains("Invalid MPI type") {
        println!("SKIPPED {test}: by PMIx: {}", said.lines().next().unwrap());
        return;
    }
    assert!(probe.status.success(), "{said}");
    runs(cluster.srun(&["-n", "3", "--mpi=pmix"]).env(PART, "pmix"));
}
