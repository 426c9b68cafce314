//! The operations, by their number.

/// An operation. A quiet one (its name ends with `q`) sends no reply that the client takes for
/// granted: see [`super::Request::quiet`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are those of the protocol's document")]
pub enum Opcode {
    Get = 0x00,
    Set = 0x01,
    Add = 0x02,
    Replace = 0x03,
    Delete = 0x04,
    Increment = 0x05,
    Decrement = 0x06,
    Quit = 0x07,
    Flush = 0x08,
    Getq = 0x09,
    Noop = 0x0a,
    Version = 0x0b,
    Getk = 0x0c,
    Getkq = 0x0d,
    Append = 0x0e,
    Prepend = 0x0f,
    Stat = 0x10,
    Setq = 0x11,
    Addq = 0x12,
    Replaceq = 0x13,
    Deleteq = 0x14,
    Incrementq = 0x15,
    Decrementq = 0x16,
    Quitq = 0x17,
    Flushq = 0x18,
    Appendq = 0x19,
    Prependq = 0x1a,
    Verbosity = 0x1b,
    Touch = 0x1c,
    Gat = 0x1d,
    Gatq = 0x1e,
    SaslList = 0x20,
    SaslAuth = 0x21,
    SaslStep = 0x22,
    Gatk = 0x23,
    Gatkq = 0x24,
}

impl Opcode {
    /// Every operation.
    pub const ALL: [Opcode; 36] = [
        Opcode::Get,
        Opcode::Set,
        Opcode::Add,
        Opcode::Replace,
        Opcode::Delete,
        Opcode::Increment,
        Opcode::Decrement,
        Opcode::Quit,
        Opcode::Flush,
        Opcode::Getq,
        Opcode::Noop,
        Opcode::Version,
        Opcode::Getk,
        Opcode::Getkq,
        Opcode::Append,
        Opcode::Prepend,
        Opcode::Stat,
        Opcode::Setq,
        Opcode::Addq,
        Opcode::Replaceq,
        Opcode::Deleteq,
        Opcode::Incrementq,
        Opcode::Decrementq,
        Opcode::Quitq,
        Opcode::Flushq,
        Opcode::Appendq,
        Opcode::Prependq,
        Opcode::Verbosity,
        Opcode::Touch,
        Opcode::Gat,
        Opcode::Gatq,
        Opcode::SaslList,
        Opcode::SaslAuth,
        Opcode::SaslStep,
        Opcode::Gatk,
        Opcode::Gatkq,
    ];

    /// The operation of a number.
    #[must_use]
    pub const fn of(number: u8) -> Option<Opcode> {
        OPCODES[number as usize]
    }

    /// The operation's number.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }
}

/// The operation of each number.
const OPCODES: [Option<Opcode>; 256] = {
    let mut opcodes = [None; 256];
    let mut index = 0;
    while index < Opcode::ALL.len() {
        let opcode = Opcode::ALL[index];
        assert!(opcodes[opcode.number() as usize].is_none(), "each is there once");
        opcodes[opcode.number() as usize] = Some(opcode);
        index += 1;
    }
    opcodes
};
