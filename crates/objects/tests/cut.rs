//! The connection is cut while something is published, at many places.

use crate::proxy::Cut;
use crate::server::{Server, cut_access};
use crate::support::{Lab, NO_FLAWS, ls, touch, view};

/// Places in each direction.
const CUTS: u64 = 6;

/// What was there stays whole; what is being published is there whole or not at all; who was told
/// that it is there was told the truth; and the next publisher goes on.
#[test]
fn a_cut_leaves_the_old_version_whole_and_the_new_one_whole_or_absent() {
    let Some(server) = Server::start("a_cut_leaves_the_old_version_whole") else { return };
    let lab = Lab::new();
    let space = lab.log_with("old");
    lab.on(&server, "measured").publish(&space, "job", None).unwrap();
    let wire = server.wire(Cut::Never);
    let registry = lab.with(&cut_access(&wire), "measured");
    touch(&space, "/new");
    registry.publish(&space, "job", None).unwrap();
    let (requests, answers) = wire.bytes();
    drop(wire);

    let mut outcomes = [0, 0];
    let at = |bytes: u64, index: u64| bytes * index / CUTS;
    let cuts = (1..=CUTS).flat_map(|index| {
        [Cut::Requests(at(requests, index) - 100), Cut::Answers(at(answers, index) - 100)]
    });
    for (index, cut) in cuts.enumerate() {
        let prefix = format!("cut{index}");
        let name = format!("log{index}");
        let space = lab.log_with(&name);
        let whole = lab.on(&server, &prefix);
        whole.publish(&space, "job", None).unwrap();
        touch(&space, "/new");

        let wire = server.wire(cut);
        let cut_off = lab.try_with(&cut_access(&wire), &prefix);
        let result = cut_off.and_then(|registry| registry.publish(&space, "job", None));
        drop(wire);
        let versions = whole.versions("job").unwrap();
        outcomes[versions.len() - 1] += 1;
        match &result {
            Ok(publication) => assert_eq!(versions, [1, publication.version]),
            Err(error) => {
                assert_eq!(error.errno(), "EIO", "{error}");
                assert!(!error.to_string().contains('\n'), "{error}");
            }
        }
        assert_eq!(whole.check().unwrap(), NO_FLAWS, "{cut:?}");
        assert_eq!(ls(&view(&whole, &["job@1"])), name);
        if versions.len() == 1 {
            assert!(result.is_err());
            // What was sent before the cut may get there late: then somebody else was first.
            if let Err(error) = whole.publish(&space, "job", Some(2)) {
                assert_eq!(error.errno(), "EBUSY", "{error}");
            }
        }
        assert_eq!(ls(&view(&whole, &["job@2"])), format!("{name} new"), "{cut:?}");
    }
    assert!(outcomes[0] > 0 && outcomes[1] > 0, "{outcomes:?}");
}
