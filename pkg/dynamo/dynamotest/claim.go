package dynamotest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"urr.guru/pkg/filelock"
)

// claim reserves the lowest number that no running test of this user has, until the test ends. Names
// of tables are used again because DynamoDB Local keeps each SQL statement that it has prepared, and
// goes through all of them when a table is deleted: after 2,000 tables with new names a deletion
// takes 8 ms instead of 2.
func claim(t testing.TB) (number int) {
	t.Helper()
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("urr-test-tables-%d", os.Getuid()))
	for number = 1; ; number++ {
		unlock, taken, err := filelock.TryLock(filepath.Join(dir, strconv.Itoa(number)))
		if err != nil {
			t.Fatalf("reserve a number for test tables: %v", err)
		}
		if taken {
			t.Cleanup(unlock)
			return number
		}
	}
}
