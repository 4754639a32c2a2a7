package dynamotest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// claim reserves the lowest number that no running test of this user has, until the test ends. Names of
// tables are used again and again because DynamoDB Local keeps each SQL statement that it has prepared,
// and goes through all of them when a table is deleted: after 2,000 tables with new names a deletion
// takes 8 ms instead of 2.
func claim(t testing.TB) (number int) {
	t.Helper()
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("urr-test-tables-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatalf("make a folder for the locks of test tables: %v", err)
	}
	for number = 1; ; number++ {
		f, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(number)), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			t.Fatalf("open a lock of test tables: %v", err)
		}
		// The kernel unlocks the file when the process dies.
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			t.Cleanup(func() { release(t, f) })
			return number
		}
		if err := f.Close(); err != nil {
			t.Errorf("close a lock of test tables: %v", err)
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			t.Fatalf("lock test tables: %v", err)
		}
	}
}

// release unlocks the file before it closes it: a process that is being started keeps it open for a
// moment.
func release(t testing.TB, f *os.File) {
	t.Helper()
	if err := errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close()); err != nil {
		t.Errorf("release test tables: %v", err)
	}
}
