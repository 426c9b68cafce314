//! Users and their permissions: owner, group and other, as in POSIX.

/// On whose behalf a call is made. User 0 may do everything.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct User {
    /// The user.
    pub uid: u32,
    /// The group that new files get.
    pub gid: u32,
    /// Further groups.
    pub groups: Vec<u32>,
}

/// May read it, or list it.
pub(crate) const READ: u32 = 4;
/// May write it, or change its entries.
pub(crate) const WRITE: u32 = 2;
/// May pass through it.
pub(crate) const PASS: u32 = 1;

/// Only owners remove entries from such a directory.
pub(crate) const STICKY: u32 = 0o1000;
/// Entries get the group of such a directory.
pub(crate) const SET_GROUP: u32 = 0o2000;
/// A program runs as its owner.
pub(crate) const SET_USER: u32 = 0o4000;
/// The group may run it.
const GROUP_EXECUTE: u32 = 0o010;

impl User {
    /// A user with one group.
    #[must_use]
    pub fn new(uid: u32, gid: u32) -> User {
        User { uid, gid, groups: Vec::new() }
    }

    /// The user who may do everything.
    #[must_use]
    pub fn root() -> User {
        User::new(0, 0)
    }

    /// Whether the group is one of the user's.
    #[must_use]
    pub fn is_in(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }

    /// Whether the bits of `mode` give the user all of `wanted`.
    pub(crate) fn may(&self, wanted: u32, mode: u32, uid: u32, gid: u32) -> bool {
        if self.uid == 0 {
            return true;
        }
        let shift = match (self.uid == uid, self.is_in(gid)) {
            (true, _) => 6,
            (false, true) => 3,
            (false, false) => 0,
        };
        mode >> shift & wanted == wanted
    }

    /// The mode that a file has after the user changed its bytes. As on Linux the bits that give
    /// rights to programs go, but for user 0: the bytes are not those that were trusted.
    pub(crate) fn mode_after_write(&self, mode: u32, gid: u32) -> u32 {
        match self.uid {
            0 => mode,
            _ => self.without_set_ids(mode, gid),
        }
    }

    /// A mode without set-user; without set-group, too, where it is about programs, or the group is
    /// none of the user's.
    pub(crate) fn without_set_ids(&self, mode: u32, gid: u32) -> u32 {
        let keeps_group = mode & GROUP_EXECUTE == 0 && (self.uid == 0 || self.is_in(gid));
        mode & !SET_USER & if keeps_group { u32::MAX } else { !SET_GROUP }
    }

    /// Whether the user owns what `uid` owns.
    pub(crate) fn owns(&self, uid: u32) -> bool {
        self.uid == 0 || self.uid == uid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What ext4 does, as seen on Linux 6.
    #[test]
    fn set_id_bits_go_with_a_write_of_anybody_but_user_0() {
        let (owner, member) = (User::new(1, 10), User { uid: 2, gid: 20, groups: vec![10] });
        let other = User::new(3, 30);
        for (mode, of_group, of_other) in [
            (0o6777, 0o777, 0o777),
            (0o6767, 0o2767, 0o767),
            (0o6666, 0o2666, 0o666),
            (0o2676, 0o676, 0o676),
            (0o4666, 0o666, 0o666),
            (0o1644, 0o1644, 0o1644),
        ] {
            assert_eq!(owner.mode_after_write(mode, 10), of_group, "{mode:o}");
            assert_eq!(member.mode_after_write(mode, 10), of_group, "{mode:o}");
            assert_eq!(other.mode_after_write(mode, 10), of_other, "{mode:o}");
            assert_eq!(User::root().mode_after_write(mode, 10), mode);
            assert_eq!(User::root().without_set_ids(mode, 10), of_group, "{mode:o}");
        }
    }

    #[test]
    fn the_first_class_that_fits_decides() {
        let owner = User::new(1, 10);
        let member = User { uid: 2, gid: 20, groups: vec![10] };
        let other = User::new(3, 30);
        let may = |user: &User, wanted, mode| user.may(wanted, mode, 1, 10);
        for (wanted, digit) in [(READ, 4), (WRITE, 2), (PASS, 1), (WRITE | PASS, 3)] {
            assert!(may(&owner, wanted, digit << 6) && !may(&owner, wanted, digit << 3));
            assert!(may(&member, wanted, digit << 3) && !may(&member, wanted, digit));
            assert!(may(&other, wanted, digit) && !may(&other, wanted, digit << 6));
        }
        // An owner whom the owner's bits refuse is not helped by those for others.
        assert!(!may(&owner, READ, 0o077));
        assert!(!may(&other, WRITE | PASS, 0o001));
        assert!(may(&User::root(), READ | WRITE | PASS, 0));
    }
}
