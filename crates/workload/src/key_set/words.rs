//! The words that keys of the [key sets](super) are made of.
//!
//! A [`Word`] has a fixed size in memory, so that writing one is a single store of sixteen bytes.
//! The tables belong to the keys: a change of one changes keys that stores and records have.

/// A word of at most sixteen bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word {
    bytes: [u8; Word::ROOM],
    length: u8,
}

impl Word {
    /// The bytes that writing any word may touch.
    pub(super) const ROOM: usize = 16;

    /// The word of the letters `start..end` of `text`.
    const fn new(text: &[u8], start: usize, end: usize) -> Word {
        let mut bytes = [0; Word::ROOM];
        let mut i = start;
        while i < end {
            bytes[i - start] = text[i];
            i += 1;
        }
        Word { bytes, length: (end - start) as u8 }
    }

    /// The word `text`.
    pub(super) const fn of(text: &str) -> Word {
        Word::new(text.as_bytes(), 0, text.len())
    }

    /// The word, followed by bytes to be overwritten.
    pub(super) const fn padded(&self) -> &[u8; Word::ROOM] {
        &self.bytes
    }

    /// The number of bytes.
    pub(super) const fn len(&self) -> usize {
        self.length as usize
    }
}

/// The words of `text`, which single blanks separate. The compiler refuses a table of another
/// length.
const fn split<const COUNT: usize>(text: &str) -> [Word; COUNT] {
    let text = text.as_bytes();
    let mut words = [Word::of(""); COUNT];
    let (mut start, mut end, mut count) = (0, 0, 0);
    while end <= text.len() {
        if end == text.len() || text[end] == b' ' {
            words[count] = Word::new(text, start, end);
            count += 1;
            start = end + 1;
        }
        end += 1;
    }
    assert!(count == COUNT, "the table has another number of words");
    words
}

/// What is in the paths of URLs and files.
pub(super) const WORDS: [Word; 186] = split(
    "account active album alpine amber analysis annual archive arctic article autumn balance \
     banner battery beach blossom border bridge budget cabin calendar camera candle canvas carbon \
     castle catalog cellar chapter charter climate coastal coffee compass concert copper corner \
     cottage country current daily decade delta desert design digital dragon driver eastern \
     edition engine evening express fabric family feature festival figure filter forest format \
     fortune gallery garden glacier granite guide habitat harbor harvest history horizon hotel \
     image impact index insight island jacket journal journey juniper kernel kitchen ladder \
     lantern legacy letter library lunar machine magnet manual marble market meadow member memory \
     message method midnight mirror modern monitor morning mosaic motion mountain museum native \
     nature network notebook ocean office orbit orchard outdoor package palette paper partner \
     pattern pepper picture pilot planet pocket portal poster profile project quarter railway \
     record region release report review river rocket sample season signal silver sketch solar \
     source spring station status story studio summer sunset support surface table temple thunder \
     ticket timber topic tower traffic travel tunnel update valley velvet vendor version village \
     vintage violet vision volume wallet water weather western window winter wonder yellow zenith",
);

/// First names: six bits.
pub(super) const FIRST_NAMES: [Word; 64] = split(
    "ada adam alan alice amir anna anton aria bella ben bruno carla carol chen clara daan dana \
     david diego elena elias emil emma erik eva fatima felix finn gabriel grace hana hugo ida \
     ines irene ivan jana jonas julia kai karim lara laura leo lina lucas luis maria marta mei \
     mila nadia nina noah nora olga omar oscar paula peter priya rosa sam tara",
);

/// Last names: seven bits.
pub(super) const LAST_NAMES: [Word; 128] = split(
    "adler ahmed albers almeida alvarez andersen arnold bauer becker bell berg bianchi bishop \
     blanc bloom boyd brandt brooks burke calder campos carter castro chavez clark cohen cole \
     conti cooper costa cruz dahl davis delgado diaz dixon dubois duran ekman ellis evans farkas \
     ferrari fischer fleming fontana foster fuentes garcia gibson gomez graham grant greco hansen \
     harris hayes heller hoffman holm horvat hughes ibrahim iversen jansen jensen kaplan keller \
     khan kim kovacs kruger kumar lambert larsen leclerc lehmann lindgren lopez lund maier marino \
     martin mendes meyer miller molina moore moreau morris muller murphy nakamura navarro nguyen \
     nielsen novak oliveira olsen ortega owens park patel perez petrov porter quinn ramos reyes \
     rivera rossi ruiz sanchez santos schmidt silva singh soto suzuki tanaka torres vargas weber \
     wilson wright young zhang zimmer",
);

/// Three of them name a host or a user: five bits each, all of two letters.
pub(super) const SYLLABLES: [Word; 32] = split(
    "ba be ce ci di do fo fa ga ge he hi ji jo ko ka la le me mi ni no po pa ra re se si ti to vo \
     va",
);

/// The ends of the names of hosts.
pub(super) const TOP_LEVELS: [Word; 8] = split(".com .org .net .de .io .co.uk .fr .jp");

/// The ends of the names of files.
pub(super) const EXTENSIONS: [Word; 8] = split(".txt .json .csv .log .pdf .jpg .rs .html");

/// The directories that all paths begin with, the most popular first.
pub(super) const ROOTS: [Word; 8] =
    split("/home /srv/projects /data/sets /var/lib /mnt/archive /opt/build /work /scratch");

/// The tables of a tenant, the most popular first.
pub(super) const TABLES: [Word; 12] = split(
    "orders order_items events customers sessions invoices products payments shipments addresses \
     audit_log subscriptions",
);
