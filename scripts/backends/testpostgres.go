package backends

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"urr.guru/scripts/platform"
)

// memory is where Linux offers a file system in memory.
const memory = "/dev/shm"

// testPostgres is the server on which tests and their platforms create hundreds of databases, each
// of some 300 files. Its data is in memory if there is room: ext4 searches past every inode that was
// deleted in the last minutes before it creates a file, which took a tenth of the processor time of
// all tests. It is a server of its own because the data of this one may vanish: nothing in it
// outlives a stop.
func (s *Set) testPostgres() backend {
	const name = "postgres-tests"
	folders := s.postgresFolders(name)
	if inMemory := filepath.Join(memory, s.outsideName(), name); hasRoom(inMemory) {
		folders = append([]string{inMemory}, folders...)
	}
	b := postgresServer{
		set: s, name: name, port: platform.TestPostgresPort, folders: folders,
		// Smaller write-ahead logs: a broken page after a crash of the machine is no loss. Many tests
		// and platforms connect at once.
		settings: []string{
			"full_page_writes=off", "wal_level=minimal", "max_wal_senders=0", "max_wal_size=256MB", "max_connections=600",
		},
	}.backend()
	b.forTests, b.temporary = true, true
	return b
}

// hasRoom reports whether the server's data fits into memory. Once the folder exists, it is used.
func hasRoom(dir string) bool {
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		return err == nil
	}
	const need, tmpfs = 1 << 30, 0x01021994
	var fs syscall.Statfs_t
	return syscall.Statfs(memory, &fs) == nil && fs.Type == tmpfs && free(fs) >= need
}
