// A shop: its stock in a key space, four counters that sell at once, and a backup.
//
//     npm install && node shop.mjs DIR
//
// The linker finds the library by its name, or KEYRACK_LIBRARY is its path.
import koffi from "koffi";
import { join } from "node:path";
import { setImmediate as others } from "node:timers/promises";

const COUNTERS = 4;
const SALES = 10;
const ABI_VERSION = 1;
const OK = 0;
const CONFLICT = 8;

const library = koffi.load(process.env.KEYRACK_LIBRARY ?? "libkeyrack.so");
for (const handle of ["store", "options", "space", "snapshot", "iterator", "transaction", "error"])
  koffi.opaque(`keyrack_${handle}`);

const keyrack = {};
for (const call of [
  "uint32_t keyrack_abi_version()",
  "const char *keyrack_error_message(keyrack_error *error)",
  "void keyrack_error_free(keyrack_error *error)",
  "void keyrack_free(void *memory)",
  "int keyrack_open(const char *, keyrack_options *, _Out_ keyrack_store **, _Inout_ keyrack_error **)",
  "int keyrack_close(keyrack_store *, _Inout_ keyrack_error **)",
  "void keyrack_store_free(keyrack_store *)",
  "int keyrack_space_open(keyrack_store *, const char *, _Out_ keyrack_space **, _Inout_ keyrack_error **)",
  "void keyrack_space_free(keyrack_space *)",
  "int keyrack_put(keyrack_space *, const void *, size_t, const void *, size_t, uint32_t, _Inout_ keyrack_error **)",
  "int keyrack_get(keyrack_space *, keyrack_snapshot *, const void *, size_t, _Out_ void **, _Out_ size_t *, _Inout_ keyrack_error **)",
  "int keyrack_iterator_new(keyrack_space *, keyrack_snapshot *, const void *, size_t, const void *, size_t, _Out_ keyrack_iterator **, _Inout_ keyrack_error **)",
  "int keyrack_iterator_first(keyrack_iterator *, _Inout_ keyrack_error **)",
  "int keyrack_iterator_next(keyrack_iterator *, _Inout_ keyrack_error **)",
  "int keyrack_iterator_valid(keyrack_iterator *)",
  "void *keyrack_iterator_key(keyrack_iterator *, _Out_ size_t *)",
  "void *keyrack_iterator_value(keyrack_iterator *, _Out_ size_t *)",
  "void keyrack_iterator_free(keyrack_iterator *)",
  "int keyrack_transaction_begin(keyrack_store *, uint32_t, _Out_ keyrack_transaction **, _Inout_ keyrack_error **)",
  "int keyrack_transaction_get(keyrack_transaction *, keyrack_space *, const void *, size_t, _Out_ void **, _Out_ size_t *, _Inout_ keyrack_error **)",
  "int keyrack_transaction_put(keyrack_transaction *, keyrack_space *, const void *, size_t, const void *, size_t, _Inout_ keyrack_error **)",
  "int keyrack_transaction_commit(keyrack_transaction *, _Inout_ keyrack_error **)",
  "void keyrack_transaction_free(keyrack_transaction *)",
  "int keyrack_backup(keyrack_store *, const char *, void *, _Inout_ keyrack_error **)",
  "int keyrack_backup_restore(const char *, const char *, const char *, _Inout_ keyrack_error **)",
]) {
  const name = call.match(/keyrack_(\w+)\(/)[1];
  keyrack[name] = library.func(call);
}

// Makes a call whose last argument is the place of an error. A failure is thrown, with its code.
function call(name, ...args) {
  const place = [null];
  const code = keyrack[name](...args, place);
  if (code === OK) return;
  const error = new Error(keyrack.error_message(place[0]));
  keyrack.error_free(place[0]);
  throw Object.assign(error, { code });
}

// A call that makes a handle, or gives one: the place is its last argument before the error.
function made(name, ...args) {
  const place = [null];
  call(name, ...args, place);
  return place[0];
}

// A text of JavaScript as the bytes and the length that a call takes.
function bytes(text) {
  const buffer = Buffer.from(text);
  return [buffer, buffer.length];
}

// The text that is lent at a pointer.
function text(pointer, length) {
  return Buffer.from(koffi.decode(pointer, koffi.array("uint8_t", Number(length)))).toString();
}

// The value that a call of this name finds; null if there is none.
function found(name, ...args) {
  const [value, length] = [[null], [0]];
  call(name, ...args, value, length);
  if (value[0] === null) return null;
  try {
    return text(value[0], length[0]);
  } finally {
    keyrack.free(value[0]);
  }
}

class Shop {
  constructor(dir) {
    this.store = made("open", dir, null);
    this.stock = made("space_open", this.store, "stock");
  }

  close() {
    call("close", this.store);
    keyrack.space_free(this.stock);
    keyrack.store_free(this.store);
  }

  put(name, count) {
    call("put", this.stock, ...bytes(name), ...bytes(String(count)), 0);
  }

  get(name) {
    return Number(found("get", this.stock, null, ...bytes(name)));
  }

  // The names from `low` on and before `high`, with what there is of them.
  *range(low, high) {
    const it = made("iterator_new", this.stock, null, ...bytes(low), ...bytes(high));
    try {
      call("iterator_first", it);
      while (keyrack.iterator_valid(it)) {
        const length = [0];
        const name = keyrack.iterator_key(it, length);
        const key = text(name, length[0]);
        const value = keyrack.iterator_value(it, length);
        yield [key, text(value, length[0])];
        call("iterator_next", it);
      }
    } finally {
      keyrack.iterator_free(it);
    }
  }

  // Sells one piece: reads, decides and writes as one step, and begins again after a conflict.
  // Other counters work while this one thinks.
  async sell(name) {
    for (;;) {
      const sale = made("transaction_begin", this.store, 0);
      try {
        const count = Number(found("transaction_get", sale, this.stock, ...bytes(name)));
        await others();
        call("transaction_put", sale, this.stock, ...bytes(name), ...bytes(String(count - 1)));
        call("transaction_commit", sale);
        return;
      } catch (error) {
        if (error.code !== CONFLICT) throw error;
      } finally {
        keyrack.transaction_free(sale);
      }
    }
  }
}

const dir = process.argv[2];
if (dir === undefined || keyrack.abi_version() !== ABI_VERSION) {
  console.error("usage: node shop.mjs DIR, with version 1 of the library's interface");
  process.exit(2);
}
const shop = new Shop(join(dir, "shop"));
for (const [name, count] of [["pears", 20], ["apples", 100], ["plums", 5], ["tools/knife", 1]])
  shop.put(name, count);
for (const [name, count] of shop.range("a", "q")) console.log(name, count);

async function counter() {
  for (let i = 0; i < SALES; i++) await shop.sell("apples");
}
await Promise.all(Array.from({ length: COUNTERS }, counter));
const left = shop.get("apples");
console.log(`sold ${COUNTERS * SALES} apples at ${COUNTERS} counters, ${left} are left`);

call("backup", shop.store, join(dir, "backups"), null);
shop.put("apples", 0);
shop.close();
call("backup_restore", join(dir, "backups"), null, join(dir, "restored"));
const copy = new Shop(join(dir, "restored"));
console.log(`the backup has ${copy.get("apples")} apples`);
copy.close();
