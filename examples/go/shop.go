// A shop: its stock in a key space, four counters that sell at once, and a backup.
//
//	go run . DIR
//
// pkg-config finds the library. Its handles are bound to no thread, so goroutines may use them.
package main

/*
#cgo pkg-config: keyrack
#include <keyrack.h>
#include <stdlib.h>
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"unsafe"
)

const (
	counters = 4
	sales    = 10
)

var errConflict = errors.New("somebody else was faster")

// failure turns the answer of a call into an error of Go, and frees that of C.
func failure(code C.enum_keyrack_code, cause *C.keyrack_error) error {
	defer C.keyrack_error_free(cause)
	switch code {
	case C.KEYRACK_OK:
		return nil
	case C.KEYRACK_CONFLICT:
		return errConflict
	default:
		return errors.New(C.GoString(C.keyrack_error_message(cause)))
	}
}

// bytes lends a text of Go to a call, which copies it before it returns.
func bytes(text string) (unsafe.Pointer, C.size_t) {
	if text == "" {
		return nil, 0
	}
	return unsafe.Pointer(&[]byte(text)[0]), C.size_t(len(text))
}

// taken copies a value that a call gave, and frees it. The second result is whether there is one.
func taken(value *C.char, length C.size_t) (string, bool) {
	if value == nil {
		return "", false
	}
	defer C.keyrack_free(unsafe.Pointer(value))
	return C.GoStringN(value, C.int(length)), true
}

type shop struct {
	store *C.keyrack_store
	stock *C.keyrack_space
}

func openShop(dir string) (*shop, error) {
	path, name := C.CString(dir), C.CString("stock")
	defer C.free(unsafe.Pointer(path))
	defer C.free(unsafe.Pointer(name))
	var s shop
	var cause *C.keyrack_error
	code := C.keyrack_open(path, nil, &s.store, &cause)
	if code == C.KEYRACK_OK {
		code = C.keyrack_space_open(s.store, name, &s.stock, &cause)
	}
	return &s, failure(code, cause)
}

func (s *shop) close() error {
	var cause *C.keyrack_error
	code := C.keyrack_close(s.store, &cause)
	C.keyrack_space_free(s.stock)
	C.keyrack_store_free(s.store)
	return failure(code, cause)
}

func (s *shop) put(name string, count int) error {
	key, keyLen := bytes(name)
	value, valueLen := bytes(strconv.Itoa(count))
	var cause *C.keyrack_error
	return failure(C.keyrack_put(s.stock, key, keyLen, value, valueLen, 0, &cause), cause)
}

func (s *shop) get(name string) (int, error) {
	key, keyLen := bytes(name)
	var value *C.char
	var length C.size_t
	var cause *C.keyrack_error
	code := C.keyrack_get(s.stock, nil, key, keyLen, &value, &length, &cause)
	if err := failure(code, cause); err != nil {
		return 0, err
	}
	text, isThere := taken(value, length)
	if !isThere {
		return 0, nil
	}
	return strconv.Atoi(text)
}

// printRange prints all names from low on and before high.
func (s *shop) printRange(low, high string) error {
	first, firstLen := bytes(low)
	end, endLen := bytes(high)
	var it *C.keyrack_iterator
	var cause *C.keyrack_error
	code := C.keyrack_iterator_new(s.stock, nil, first, firstLen, end, endLen, &it, &cause)
	if err := failure(code, cause); err != nil {
		return err
	}
	defer C.keyrack_iterator_free(it)
	cause = nil
	for code = C.keyrack_iterator_first(it, &cause); code == C.KEYRACK_OK; {
		if C.keyrack_iterator_valid(it) == 0 {
			return nil
		}
		var keyLen, valueLen C.size_t
		key := C.keyrack_iterator_key(it, &keyLen)
		value := C.keyrack_iterator_value(it, &valueLen)
		fmt.Println(C.GoStringN(key, C.int(keyLen)), C.GoStringN(value, C.int(valueLen)))
		code = C.keyrack_iterator_next(it, &cause)
	}
	return failure(code, cause)
}

// sellOnce reads, decides and writes as one step, which is a conflict if somebody else was faster.
func (s *shop) sellOnce(name string) error {
	key, keyLen := bytes(name)
	var sale *C.keyrack_transaction
	var cause *C.keyrack_error
	if err := failure(C.keyrack_transaction_begin(s.store, 0, &sale, &cause), cause); err != nil {
		return err
	}
	defer C.keyrack_transaction_free(sale)
	var value *C.char
	var length C.size_t
	cause = nil
	code := C.keyrack_transaction_get(sale, s.stock, key, keyLen, &value, &length, &cause)
	if err := failure(code, cause); err != nil {
		return err
	}
	text, _ := taken(value, length)
	count, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	left, leftLen := bytes(strconv.Itoa(count - 1))
	cause = nil
	code = C.keyrack_transaction_put(sale, s.stock, key, keyLen, left, leftLen, &cause)
	if code == C.KEYRACK_OK {
		code = C.keyrack_transaction_commit(sale, &cause)
	}
	return failure(code, cause)
}

// sell begins again after each conflict.
func (s *shop) sell(name string) error {
	for {
		if err := s.sellOnce(name); err != errConflict {
			return err
		}
	}
}

func (s *shop) backup(target string) error {
	path := C.CString(target)
	defer C.free(unsafe.Pointer(path))
	var cause *C.keyrack_error
	return failure(C.keyrack_backup(s.store, path, nil, &cause), cause)
}

func restore(target, dir string) error {
	from, to := C.CString(target), C.CString(dir)
	defer C.free(unsafe.Pointer(from))
	defer C.free(unsafe.Pointer(to))
	var cause *C.keyrack_error
	return failure(C.keyrack_backup_restore(from, nil, to, &cause), cause)
}

func run(dir string) error {
	s, err := openShop(filepath.Join(dir, "shop"))
	if err != nil {
		return err
	}
	stock := map[string]int{"pears": 20, "apples": 100, "plums": 5, "tools/knife": 1}
	for name, count := range stock {
		if err := s.put(name, count); err != nil {
			return err
		}
	}
	if err := s.printRange("a", "q"); err != nil {
		return err
	}

	failures := make(chan error, counters)
	var open sync.WaitGroup
	for i := 0; i < counters; i++ {
		open.Add(1)
		go func() {
			defer open.Done()
			for i := 0; i < sales; i++ {
				if err := s.sell("apples"); err != nil {
					failures <- err
					return
				}
			}
		}()
	}
	open.Wait()
	close(failures)
	if err := <-failures; err != nil {
		return err
	}
	left, err := s.get("apples")
	if err != nil {
		return err
	}
	fmt.Printf("sold %d apples at %d counters, %d are left\n", counters*sales, counters, left)

	backups, restored := filepath.Join(dir, "backups"), filepath.Join(dir, "restored")
	if err := s.backup(backups); err != nil {
		return err
	}
	if err := s.put("apples", 0); err != nil {
		return err
	}
	if err := s.close(); err != nil {
		return err
	}
	if err := restore(backups, restored); err != nil {
		return err
	}
	copied, err := openShop(restored)
	if err != nil {
		return err
	}
	left, err = copied.get("apples")
	if err != nil {
		return err
	}
	fmt.Printf("the backup has %d apples\n", left)
	return copied.close()
}

func main() {
	if len(os.Args) != 2 || C.keyrack_abi_version() != C.KEYRACK_ABI_VERSION {
		fmt.Fprintln(os.Stderr, "usage: shop DIR, with the library that keyrack.h is of")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "shop:", err)
		os.Exit(1)
	}
}
