//! Rank and size of this process, as the launchers of jobs export them.
//!
//! ```text
//!   MPICH, Intel MPI, srun --mpi=pmi2   PMI_RANK              PMI_SIZE
//!   Open MPI                            OMPI_COMM_WORLD_RANK  OMPI_COMM_WORLD_SIZE
//!   srun                                SLURM_PROCID          SLURM_NTASKS
//! ```
//!
//! The first pair that is set wins. `mpirun` inside a job of Slurm exports its own ranks, and its
//! daemons have other ranks of Slurm, so the pairs above are not compared with that of Slurm.
//! Those of PMI and Open MPI must agree, and so must `PMIX_RANK` with the pair that wins.

use super::error::{Error, Result};

/// Where variables come from.
pub(super) type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Names the job, before all that a launcher exports.
const JOB_ID: &str = "KEYRACK_JOB_ID";

/// Variables of other launchers that ranks of ours must not see.
pub(super) const FOREIGN: [&str; 3] = ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_RANK"];

/// Bytes of a job's name, at most.
const JOB_BYTES_MAX: usize = 128;

/// This process among the ranks of its job.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) rank: u32,
    pub(super) size: u32,
    /// A name that no other job has; it can be part of a file's name.
    pub(super) job: Option<String>,
    /// Whether all ranks are known to run on this machine.
    pub(super) is_one_machine: bool,
    /// The descriptor of a launcher that speaks PMI-1.
    pub(super) pmi_fd: Option<String>,
}

/// A rank and a size, with the names of their variables.
#[derive(Clone, Copy)]
struct Pair {
    names: [&'static str; 2],
    rank: u32,
    size: u32,
}

impl Place {
    /// A rank that flags describe.
    pub(super) fn by_flags(rank: u32, size: u32, get: Lookup<'_>) -> Place {
        let job = job_name(get, &[]);
        Place { rank, size, job, is_one_machine: false, pmi_fd: None }
    }

    /// The rank that a launcher has made of this process; `None` without a launcher.
    pub(super) fn from_environment(get: Lookup<'_>) -> Result<Option<Place>> {
        let pmi = pair(get, ["PMI_RANK", "PMI_SIZE"])?;
        let open_mpi = pair(get, ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"])?;
        if let (Some(one), Some(other)) = (pmi, open_mpi) {
            check_agreement(one, other)?;
        }
        let slurm = if is_batch_script(get) {
            None
        } else {
            // Without a rank it is a shell in an allocation, which has a number of tasks as well.
            let is_task = get("SLURM_PROCID").is_some();
            if is_task { pair(get, ["SLURM_PROCID", "SLURM_NTASKS"])? } else { None }
        };
        let pmix = number(get, "PMIX_RANK")?;
        let (pair, job, is_one_machine) = match (pmi, open_mpi, slurm) {
            (Some(pmi), ..) => (pmi, job_name(get, &["PMI_JOBID"]), is_local_pmi(get, pmi.size)),
            (_, Some(open_mpi), _) => {
                let job = job_name(get, &["PMIX_NAMESPACE"])
                    .or_else(|| job_name(get, &["OMPI_MCA_ess_base_jobid"]));
                let local = number(get, "OMPI_COMM_WORLD_LOCAL_SIZE")?;
                (open_mpi, job, local == Some(open_mpi.size))
            }
            (.., Some(slurm)) => {
                let job = job_name(get, &["SLURM_JOB_ID", "SLURM_STEP_ID"]);
                (slurm, job, slurm_machines(get).as_deref() == Some("1"))
            }
            _ => return no_pair(get, pmix),
        };
        let Pair { rank, size, names } = pair;
        match pmix {
            Some(other) if other != rank => {
                Err(contradiction(&format!("{}={rank}", names[0]), &format!("PMIX_RANK={other}")))
            }
            _ => Ok(Some(Place { rank, size, job, is_one_machine, pmi_fd: get("PMI_FD") })),
        }
    }
}

/// No launcher, unless one has exported a part of what is needed.
fn no_pair(get: Lookup<'_>, pmix: Option<u32>) -> Result<Option<Place>> {
    if let Some(fd) = get("PMI_FD") {
        let what = format!("PMI_FD={fd} is set, but PMI_RANK and PMI_SIZE are not");
        return Err(Error::Usage(format!("{what}; start the ranks with a launcher")));
    }
    match pmix {
        None => Ok(None),
        Some(rank) => Err(Error::Usage(format!(
            "PMIX_RANK={rank} is set, but no variable has the size; give --rank and --size"
        ))),
    }
}

/// Whether a PMIx server waits for this process. The number after the name is the version of the
/// library that a server of that address suits; servers export several.
pub(super) fn has_pmix_server(get: Lookup<'_>) -> bool {
    let is_set = |name: &str| get(name).is_some_and(|value| !value.is_empty());
    let versions = ["", "2", "21", "3", "4", "41", "5", "51", "6"];
    is_set("PMIX_RANK")
        && is_set("PMIX_NAMESPACE")
        && versions.iter().any(|version| is_set(&format!("PMIX_SERVER_URI{version}")))
}

/// The script of a batch job has rank 0 of Slurm, however many tasks there will be. It is no step
/// of its job.
fn is_batch_script(get: Lookup<'_>) -> bool {
    get("SLURM_JOB_ID").is_some() && get("SLURM_STEP_ID").is_none()
}

fn slurm_machines(get: Lookup<'_>) -> Option<String> {
    get("SLURM_STEP_NUM_NODES").or_else(|| get("SLURM_NNODES"))
}

/// MPICH says how many ranks this machine has. A launcher that does not is of this machine alone,
/// unless it is Slurm.
fn is_local_pmi(get: Lookup<'_>, size: u32) -> bool {
    match get("MPI_LOCALNRANKS") {
        Some(count) => count == size.to_string(),
        None => slurm_machines(get).is_none_or(|count| count == "1"),
    }
}

fn number(get: Lookup<'_>, name: &str) -> Result<Option<u32>> {
    let Some(text) = get(name) else { return Ok(None) };
    let wrong = || Error::Usage(format!("{name}='{text}' is no number; unset it or correct it"));
    text.parse().map(Some).map_err(|_| wrong())
}

fn pair(get: Lookup<'_>, names: [&'static str; 2]) -> Result<Option<Pair>> {
    let [rank_name, size_name] = names;
    let wrong = |what: String| Err(Error::Usage(what));
    match (number(get, rank_name)?, number(get, size_name)?) {
        (None, None) => Ok(None),
        (Some(rank), Some(size)) if rank < size => Ok(Some(Pair { names, rank, size })),
        (Some(rank), Some(size)) => {
            wrong(format!("{rank_name}={rank} is not below {size_name}={size}; ranks begin at 0"))
        }
        (Some(rank), None) => {
            wrong(format!("{rank_name}={rank} is set, but {size_name} is not; set both or none"))
        }
        (None, Some(size)) => {
            wrong(format!("{size_name}={size} is set, but {rank_name} is not; set both or none"))
        }
    }
}

fn check_agreement(one: Pair, other: Pair) -> Result<()> {
    let parts = |pair: Pair| [(pair.names[0], pair.rank), (pair.names[1], pair.size)];
    for (mine, its) in parts(one).into_iter().zip(parts(other)) {
        if mine.1 != its.1 {
            let [mine, its] = [mine, its].map(|(name, value)| format!("{name}={value}"));
            return Err(contradiction(&mine, &its));
        }
    }
    Ok(())
}

fn contradiction(one: &str, other: &str) -> Error {
    Error::Usage(format!("{one} contradicts {other}; unset the variables of one launcher"))
}

/// The name of the job: the user's, or all of these variables.
fn job_name(get: Lookup<'_>, names: &[&str]) -> Option<String> {
    let given = get(JOB_ID).filter(|job| !job.is_empty());
    let joined = || -> Option<String> {
        let parts: Option<Vec<String>> = names.iter().map(|name| get(name)).collect();
        parts.map(|parts| parts.join(".")).filter(|job| !job.is_empty())
    };
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    let letters = |job: String| job.chars().take(JOB_BYTES_MAX).collect::<String>();
    let job = given.or_else(joined).map(letters)?;
    Some(job.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pairs: &[(&str, &str)]) -> Result<Option<Place>> {
        let get =
            |name: &str| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.to_owned());
        Place::from_environment(&get)
    }

    fn place(rank: u32, size: u32, job: Option<&str>, is_one_machine: bool) -> Place {
        Place { rank, size, job: job.map(str::to_owned), is_one_machine, pmi_fd: None }
    }

    #[track_caller]
    fn refused(pairs: &[(&str, &str)], parts: &[&str]) {
        let error = found(pairs).unwrap_err().to_string();
        for part in parts {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn each_launcher_exports_rank_size_and_job() {
        let open_mpi = [
            ("OMPI_COMM_WORLD_RANK", "2"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
            ("PMIX_RANK", "2"),
            ("PMIX_NAMESPACE", "prterun-a@1/b"),
        ];
        assert_eq!(found(&open_mpi).unwrap(), Some(place(2, 4, Some("prterun-a_1_b"), true)));
        let slurm = [
            ("SLURM_PROCID", "1"),
            ("SLURM_NTASKS", "3"),
            ("SLURM_JOB_ID", "17"),
            ("SLURM_STEP_ID", "0"),
            ("SLURM_STEP_NUM_NODES", "2"),
            ("PMIX_RANK", "1"),
        ];
        assert_eq!(found(&slurm).unwrap(), Some(place(1, 3, Some("17.0"), false)));
        assert_eq!(found(&slurm[..2]).unwrap(), Some(place(1, 3, None, false)));
        let pmi = [("PMI_RANK", "0"), ("PMI_SIZE", "2"), ("PMI_JOBID", "9.1")];
        assert_eq!(found(&pmi).unwrap(), Some(place(0, 2, Some("9.1"), true)));
        let named = [pmi[0], pmi[1], ("KEYRACK_JOB_ID", "mine"), ("SLURM_NNODES", "2")];
        assert_eq!(found(&named).unwrap(), Some(place(0, 2, Some("mine"), false)));
        assert_eq!(found(&[]).unwrap(), None);
    }

    /// `mpirun` in a job of Slurm: its daemons are tasks of Slurm, and its ranks are not.
    #[test]
    fn a_launcher_inside_slurm_wins_over_slurm() {
        let outer = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "1"), ("SLURM_STEP_ID", "0")];
        let mut all = outer.to_vec();
        all.extend([("OMPI_COMM_WORLD_RANK", "3"), ("OMPI_COMM_WORLD_SIZE", "4")]);
        assert_eq!(found(&all).unwrap().map(|place| (place.rank, place.size)), Some((3, 4)));
        let mut all = outer.to_vec();
        all.extend([("PMI_RANK", "1"), ("PMI_SIZE", "2"), ("PMI_FD", "7")]);
        let inner = found(&all).unwrap().unwrap();
        assert_eq!((inner.rank, inner.size, inner.pmi_fd.as_deref()), (1, 2, Some("7")));
    }

    #[test]
    fn a_batch_script_and_a_shell_in_an_allocation_are_no_ranks() {
        let script = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4"), ("SLURM_JOB_ID", "17")];
        assert_eq!(found(&script).unwrap(), None);
        assert_eq!(found(&script[1..]).unwrap(), None);
    }

    #[test]
    fn a_server_of_pmix_needs_an_address_and_a_rank() {
        let all = [("PMIX_RANK", "0"), ("PMIX_NAMESPACE", "a"), ("PMIX_SERVER_URI41", "a.0;tcp")];
        let has = |pairs: &[(&str, &str)]| {
            let of = |name: &str| pairs.iter().find(|pair| pair.0 == name);
            has_pmix_server(&|name| of(name).map(|pair| pair.1.to_owned()))
        };
        assert!(has(&all));
        for absent in 0..3 {
            let mut some = all.to_vec();
            some[absent].1 = "";
            assert!(!has(&some), "{some:?}");
            some.remove(absent);
            assert!(!has(&some), "{some:?}");
        }
    }

    #[test]
    fn malformed_and_contradictory_values_are_refused_by_name() {
        for (rank, size) in [
            ("PMI_RANK", "PMI_SIZE"),
            ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
            ("SLURM_PROCID", "SLURM_NTASKS"),
        ] {
            for text in ["", "two", "-1", "4294967296", "1 "] {
                let quoted = format!("{rank}='{text}' is no number");
                refused(&[(rank, text), (size, "2")], &[&quoted]);
                let quoted = format!("{size}='{text}' is no number");
                refused(&[(rank, "0"), (size, text)], &[&quoted]);
            }
            refused(&[(rank, "1")], &[&format!("{rank}=1"), size]);
            let quoted = [format!("{rank}=2"), format!("{size}=2")];
            refused(&[(rank, "2"), (size, "2")], &[&quoted[0], &quoted[1]]);
        }
        refused(&[("PMI_SIZE", "3")], &["PMI_SIZE=3", "PMI_RANK"]);
        refused(&[("PMIX_RANK", "x")], &["PMIX_RANK='x' is no number"]);
        refused(&[("PMIX_RANK", "5")], &["PMIX_RANK=5", "--size"]);
        refused(&[("PMI_FD", "5")], &["PMI_FD=5", "PMI_RANK"]);
        let open_mpi = [("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "4")];
        let with = |more: &[(&'static str, &'static str)]| [&open_mpi[..], more].concat();
        let rank = "OMPI_COMM_WORLD_RANK=1";
        refused(&with(&[("PMIX_RANK", "2")]), &[rank, "contradicts PMIX_RANK=2"]);
        refused(&with(&[("PMI_RANK", "0"), ("PMI_SIZE", "4")]), &["PMI_RANK=0", rank]);
        let sizes = ["PMI_SIZE=2", "OMPI_COMM_WORLD_SIZE=4"];
        refused(&with(&[("PMI_RANK", "1"), ("PMI_SIZE", "2")]), &sizes);
    }
}
