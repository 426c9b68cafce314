//! `keyrack fs mount` through the kernel: the programs of a shell on a mount, and what a second
//! mount sees. Where there is no /dev/fuse, or no right to mount, each test says SKIPPED.

use crate::support::{Lab, Running};
use std::io::Write;
use std::path::Path;
use std::process::Command;

/// A log `s` mounted at `m`.
struct Mounted<'a> {
    lab: &'a Lab,
    server: Option<Running>,
}

impl<'a> Mounted<'a> {
    fn new(lab: &'a Lab, line: &str) -> Mounted<'a> {
        let mut server = lab.start(line);
        server.wait_for("mounted at");
        Mounted { lab, server: Some(server) }
    }

    /// Runs a script in the mount point.
    #[track_caller]
    fn shell(&self, script: &str) -> String {
        self.lab.shell(&format!("set -e; cd m; {script}")).exits(0).stdout
    }

    /// Ends it by a signal, and waits.
    #[track_caller]
    fn end(mut self) {
        let server = self.server.take().unwrap();
        server.signal("TERM");
        server.finish().exits(0);
    }

    /// Ends it as nothing else does. The kernel still has the mount then.
    fn kill(mut self) {
        let mut server = self.server.take().unwrap();
        server.kill();
        server.finish();
        self.detach();
    }

    fn detach(&self) {
        let m = self.lab.path("m");
        let umount = Command::new("umount").arg("-l").arg(&m).output();
        if !umount.is_ok_and(|done| done.status.success()) {
            let _ = Command::new("fusermount3").args(["-u", "-z"]).arg(&m).output();
        }
    }
}

impl Drop for Mounted<'_> {
    /// A test that panicked leaves no mount behind.
    fn drop(&mut self) {
        if self.server.is_some() {
            self.detach();
        }
    }
}

/// A lab with a mount point `m`; says so where mounts do not work.
fn lab_to_mount(test: &str) -> Option<Lab> {
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|o| o.stdout == b"0\n");
    let has_helper = Command::new("fusermount3").arg("-V").output().is_ok();
    let can = Path::new("/dev/fuse").exists() && (is_root || has_helper);
    if !can {
        // Not with `println!`, which the runner of tests keeps to itself.
        let line = format!("SKIPPED {test}: no /dev/fuse, or no right to mount\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
        return None;
    }
    let lab = Lab::with_dir("m");
    Some(lab)
}

#[test]
fn programs_work_on_a_mount_and_another_mount_sees_what_they_did() {
    let Some(lab) = lab_to_mount("programs_work_on_a_mount") else { return };
    lab.shell(
        "mkdir -p src/a/b; printf small > src/a/one; seq 1 200000 > src/a/b/large; \
         : > src/empty; ln -s ../one src/a/b/link; chmod 640 src/a/one",
    )
    .exits(0);
    let m = Mounted::new(&lab, "fs mount s m");
    m.shell("cp -r ../src copy && diff -r ../src copy && cp -a ../src kept");
    assert_eq!(m.shell("stat -c '%a %s %F' copy/a/one"), "640 5 regular file\n");
    let found = m.shell("find copy -type f | sort | tr '\\n' ' '");
    assert_eq!(found, "copy/a/b/large copy/a/one copy/empty ");
    assert_eq!(m.shell("readlink copy/a/b/link; cat copy/a/b/../one"), "../one\nsmall");
    m.shell(
        "export HOME=$PWD GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b \
         GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; git init -q work; cp -r copy work/x; \
         cd work; git add . && git commit -q -m one; git mv x/empty x/moved; \
         git commit -q -m two; git gc -q; git fsck --strict; \
         test -z \"$(git status --porcelain)\"",
    );
    assert_eq!(m.shell("git -C work rev-list --count HEAD"), "2\n");
    m.end();
    // Beside the kernel: the same tree.
    lab.run("fs ls --db s /copy/a").exits(0).says("b\none\n");
    assert_eq!(lab.run("fs get --db s /copy/a/b/large").exits(0).stdout, lab.read("src/a/b/large"));
    lab.run("fs fsck --db s --deep").exits(0);
    assert!(!lab.exists("s/contents/unfinished"));
    let m = Mounted::new(&lab, "fs mount --db s m");
    m.shell("diff -r ../src copy && diff -r ../src kept && git -C work fsck --strict");
    m.shell("rm -r copy kept work");
    assert_eq!(m.shell("ls"), "");
    m.end();
    let left = lab.shell("find s/contents -type f").exits(0).stdout;
    assert_eq!(left, "", "bytes of removed files stayed");
}

#[test]
fn files_grow_shrink_move_and_outlive_their_names() {
    let Some(lab) = lab_to_mount("files_grow_shrink_move") else { return };
    let m = Mounted::new(&lab, "fs mount s m");
    // Over the edge of what a record holds, back, and over it with a hole.
    m.shell("head -c 3901 /dev/zero | tr '\\0' a > f; printf b >> f; test $(stat -c %s f) = 3902");
    assert_eq!(m.shell("tail -c 3 f"), "aab");
    m.shell("truncate -s 10 f; truncate -s 5000 f");
    m.shell("printf z | dd of=f bs=1 seek=6000 conv=notrunc status=none");
    assert_eq!(m.shell("head -c 11 f | od -An -c | tr -d ' \\n'"), "aaaaaaaaaa\\0");
    assert_eq!(m.shell("tr -d '\\0' < f"), "aaaaaaaaaaz");
    m.shell("mkdir d; mv f d/g; printf new > f; mv f d/g; test \"$(cat d/g)\" = new");
    m.shell("! mv -T d/g d 2>&1");
    // Removed while open, read and written behind the name, small and large.
    let script = "printf hello > t; exec 3<>t; rm t; cat <&3; seq 1 5000 >&3; \
                  test $(stat -L -c %s /proc/$$/fd/3) = 23898; test ! -e t";
    assert_eq!(m.shell(script), "hello");
    let script = "seq 1 9000 > u; exec 3<u; rm u; tail -n 1 <&3";
    assert_eq!(m.shell(script), "9000\n");
    m.shell("mkdir many; cd many; seq 1 3000 | xargs touch; test $(ls | wc -l) = 3000");
    m.shell("find many -name '*7' | wc -l | grep -qx 300; rm -r many; test ! -e many");
    assert_eq!(m.shell("mkfifo p 2>&1 | grep -c permitted"), "1\n");
    m.shell("touch -d @1700000000.5 d/g; chown 12:34 d/g; chmod 4711 d/g");
    assert_eq!(m.shell("stat -c '%a %u %g %.1Y' d/g"), "4711 12 34 1700000000.5\n");
    m.shell("df . > /dev/null; cp d/g d/h; cmp d/g d/h");
    m.end();
    lab.run("fs fsck --db s").exits(0);
}

#[test]
fn programs_give_files_several_names() {
    let Some(lab) = lab_to_mount("programs_give_files_several_names") else { return };
    let m = Mounted::new(&lab, "fs mount s m");
    m.shell("mkdir d; printf one > a; ln a d/b; ln -s a l; ln -P l d/l; test a -ef d/b");
    assert_eq!(
        m.shell("stat -c '%h %F' a d/b d/l | uniq -c | tr -s ' ' | tr '\\n' ,"),
        " 2 2 regular file, 1 2 symbolic link,"
    );
    // A change by one name is one by the others, also when that name is gone.
    assert_eq!(
        m.shell("printf ' two' >> a; chmod 600 a; cat d/b; stat -c ' %a' d/b"),
        "one two 600\n"
    );
    let script = "exec 3<>d/b; rm d/b; printf ONE >&3; cat a; stat -L -c ' %h' /proc/$$/fd/3";
    assert_eq!(m.shell(script), "ONE two 1\n");
    let script = "ln a b; exec 3<>a; rm a b; stat -L -c '%h' /proc/$$/fd/3; cat <&3";
    assert_eq!(m.shell(script), "0\nONE two");
    assert_eq!(m.shell("ln none x 2>&1 | grep -c 'No such file'"), "1\n");
    // Beyond a record; one of the names is replaced, and the last takes the bytes along.
    m.shell("seq 1 20000 > f; ln f g; ln g h; echo 20001 >> h; printf x > n; mv n f");
    assert_eq!(m.shell("seq 1 20001 | cmp - g; stat -c %h f g h | tr '\\n' ' '"), "1 2 2 ");
    assert_eq!(m.shell("mv g d/g; echo $(ls) / $(ls d)"), "d f h l / g l\n");
    // Programs that copy links as links.
    m.shell("cp -a . ../copy; cp -a ../copy d/copy; tar cf - h d/g | tar xf - -C d/copy/d");
    m.shell("test d/copy/h -ef d/copy/d/g; test d/copy/d/h -ef d/copy/d/d/g; rm -r d/copy ../copy");
    m.shell(
        "export HOME=$PWD GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b \
         GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; git init -q one; cp h one; cd one; \
         git add . && git commit -q -m one; cd ..; git clone -q --local one two; \
         git -C two fsck --strict; test $(find two -links 2 -type f | wc -l) -gt 2; rm -r one two",
    );
    m.end();
    lab.run("fs fsck --db s --deep").exits(0).warns("1 directories, 2 files, 1 links");
    let m = Mounted::new(&lab, "fs mount s m");
    m.shell("test h -ef d/g; echo 20002 >> d/g; rm h; seq 1 20002 | cmp - d/g; rm d/g");
    m.end();
    let left = lab.shell("find s/contents -type f").exits(0).stdout;
    assert_eq!(left, "", "bytes of removed files stayed");
}

#[test]
fn a_mount_that_is_killed_leaves_everything_that_was_written() {
    let Some(lab) = lab_to_mount("a_mount_that_is_killed") else { return };
    let m = Mounted::new(&lab, "fs mount s m");
    m.shell("seq 1 20000 > large; printf small > small; seq 1 9000 > gone; rm gone; ln large too");
    m.kill();
    assert!(lab.exists("s/contents/unfinished"));
    // Bytes that no record names, as a kill between the two leaves them.
    lab.shell("mkdir -p s/contents/00; printf x > s/contents/00/80000000000000000000000000000000")
        .exits(0);
    let m = Mounted::new(&lab, "fs mount s m");
    m.shell("seq 1 20000 | cmp - large; test \"$(cat small)\" = small; test $(ls | wc -l) = 3");
    m.shell("test large -ef too; rm large; seq 1 20000 | cmp - too");
    m.end();
    assert!(!lab.exists("s/contents/unfinished"));
    assert!(!lab.exists("s/contents/00/80000000000000000000000000000000"));
}

#[test]
fn a_published_tree_is_mounted_read_only_and_changed_above() {
    let Some(lab) = lab_to_mount("a_published_tree") else { return };
    let m = Mounted::new(&lab, "fs mount s m");
    m.shell("seq 1 20000 > large; printf small > small; ln small name");
    m.end();
    lab.run("fs publish --db s --registry reg run").exits(0);
    lab.run("fs fsck --registry reg --view run --deep").exits(0);
    let m = Mounted::new(&lab, "fs mount --registry reg --view run m");
    m.shell("seq 1 20000 | cmp - large; ! touch x 2>/dev/null; ! rm small 2>/dev/null");
    m.shell("! ln small x 2>/dev/null; test $(stat -c %h name) = 2");
    m.end();
    let m = Mounted::new(&lab, "fs mount --registry reg --base run --db t m");
    m.shell("printf more >> large; seq 20001 20003 >> small; ln name third; rm small name");
    m.end();
    let names = lab.run("fs ls --registry reg --view run").exits(0).stdout;
    assert_eq!(names, "large\nname\nsmall\n");
    let m = Mounted::new(&lab, "fs mount --registry reg --db t m");
    assert_eq!(m.shell("ls; tail -c 10 large"), "large\nthird\n20000\nmore");
    assert_eq!(m.shell("head -c 11 third; stat -c ' %h' third"), "small20001\n 1\n");
    m.end();
    let m = Mounted::new(&lab, "fs mount --registry reg --view run m");
    m.shell("seq 1 20000 | cmp - large; test \"$(cat name)\" = small; test name -ef small");
    m.end();
}

#[test]
fn what_cannot_be_mounted_is_told_in_a_line() {
    let lab = Lab::new();
    lab.run("fs mount s nowhere").refuses(&["nowhere", "make it first"]);
    lab.write("file", "");
    lab.run("fs mount s file").refuses(&["file", "not a directory"]);
    lab.make_dir("full");
    lab.write("full/x", "");
    lab.run("fs mount s full").refuses(&["full", "not empty"]);
    lab.run("fs mount full").refuses(&["mount point"]);
    lab.run("fs mount --db s s full").refuses(&["only the mount point"]);
    lab.run("fs mount --as 1:1 s full").refuses(&["--as", "kernel"]);
    assert!(!lab.exists("s"));
}
