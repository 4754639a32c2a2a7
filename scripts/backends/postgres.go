package backends

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5"

	"urr.guru/scripts/internal/apt"
	"urr.guru/scripts/platform"
	"urr.guru/scripts/process"
)

// postgresUser is the user that the package creates. If this process is root, the server runs as
// this user, since PostgreSQL refuses to run as root.
const postgresUser = "postgres"

func (s *Set) postgres() backend {
	const name = "postgres"
	b := postgresServer{set: s, name: name, port: platform.PostgresPort, folders: s.postgresFolders(name)}.backend()
	b.settle = s.createDatabases
	return b
}

// postgresFolders returns the folders in which a server's data may be on disk: one in the checkout,
// and one outside for the case that the server's user cannot enter the checkout.
func (s *Set) postgresFolders(name string) []string {
	return []string{s.layout.State("data", name), filepath.Join("/var/tmp", s.outsideName(), name)}
}

// outsideName returns the name of the folder that this checkout has outside the checkout.
func (s *Set) outsideName() string {
	sum := sha256.Sum256([]byte(s.layout.State("data", "postgres")))
	return "urr-" + hex.EncodeToString(sum[:6])
}

// postgresServer describes one PostgreSQL server.
type postgresServer struct {
	set      *Set
	name     string
	port     int      // before URR_PORT_OFFSET is added
	folders  []string // folders that may have its data, the preferred one first
	settings []string // server settings in addition to the common ones
}

func (p postgresServer) backend() backend {
	port := p.set.layout.Port(p.port)
	return backend{
		name: p.name, ports: []int{port}, settle: doNothing,
		stop:    syscall.SIGINT, // fast shutdown: does not wait for open sessions
		pidFile: "postmaster.pid",
		prepare: p.prepare,
		spec: func() (process.Spec, error) {
			bin, err := postgresBin()
			if err != nil {
				return process.Spec{}, err
			}
			dir, cred, err := p.chooseDataFolder()
			if err != nil {
				return process.Spec{}, err
			}
			// synchronous_commit has its durable default, because crash tests depend on it. With fsync off,
			// only a power failure loses data: the kernel still has the data of a killed server.
			args := []string{"-D", dir, "-p", strconv.Itoa(port)}
			for _, setting := range append([]string{
				"listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=300", "fsync=off",
				"shared_buffers=256MB", "log_min_duration_statement=2s",
			}, p.settings...) {
				args = append(args, "-c", setting)
			}
			return process.Spec{Path: filepath.Join(bin, "postgres"), Args: args, Dir: dir, Credential: cred}, nil
		},
		ready: func(ctx context.Context) error {
			conn, err := pgx.Connect(ctx, p.set.layout.ServerURL(p.port, "postgres"))
			if err != nil {
				return err
			}
			return conn.Close(ctx)
		},
	}
}

func (p postgresServer) prepare(ctx context.Context) error {
	s := p.set
	bin, err := s.apt.EnsureFound(ctx, "postgresql", postgresBin)
	if err != nil {
		return err
	}
	dir, cred, err := p.chooseDataFolder()
	if err != nil {
		return err
	}
	if want := p.folders[0]; dir != want {
		s.say("%s: user %s cannot use %s, so its data is in %s", p.name, postgresUser, want, dir)
	}
	if _, err := os.Stat(filepath.Join(dir, "PG_VERSION")); err == nil {
		return nil
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", dir, "-U", platform.PostgresUser,
		"--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--data-checksums", "--no-sync")
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
	if err := apt.RunLogged(cmd, s.layout.LogFile("initdb-"+p.name)); err != nil {
		return fmt.Errorf("initdb failed: %w", err)
	}
	return nil
}

// chooseDataFolder returns the first data folder that the server's user can enter. If this
// process runs as root, it also returns the credential of the user that runs the server.
func (p postgresServer) chooseDataFolder() (string, *syscall.Credential, error) {
	var cred *syscall.Credential
	if os.Geteuid() == 0 {
		var err error
		if cred, err = lookupCredential(postgresUser); err != nil {
			return "", nil, err
		}
	}
	var errs error
	for _, dir := range p.folders {
		if err := ownFolder(dir, cred); err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		return dir, cred, nil
	}
	return "", nil, fmt.Errorf("no folder for the data of %s: %w", p.name, errs)
}

// ownFolder creates a folder that belongs to a user (nil: the current one). It returns an error if
// that user cannot enter the folder.
func ownFolder(dir string, cred *syscall.Credential) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make folder: %w", err)
	}
	if cred == nil {
		return nil
	}
	if err := os.Lchown(dir, int(cred.Uid), int(cred.Gid)); err != nil {
		return fmt.Errorf("give folder away: %w", err)
	}
	cmd := exec.Command("test", "-w", dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s cannot be entered: %w", dir, err)
	}
	return nil
}

func lookupCredential(name string) (*syscall.Credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("there is no user %s, as whom root must run PostgreSQL: %w", name, err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user id of %s: %w", name, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("group id of %s: %w", name, err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// postgresBin returns the folder with the programs of the newest installed server, which must be
// version 15 or later. Debian does not put them on PATH.
func postgresBin() (string, error) {
	const oldest = 15
	dirs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", fmt.Errorf("find PostgreSQL: %w", err)
	}
	version := func(dir string) int {
		n, err := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
		if err != nil {
			return 0
		}
		return n
	}
	slices.SortFunc(dirs, func(a, b string) int { return version(b) - version(a) })
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, "initdb")); err == nil && version(dir) >= oldest {
			return dir, nil
		}
	}
	return "", fmt.Errorf("no PostgreSQL server of version %d or later is installed", oldest)
}

func (s *Set) createDatabases(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.layout.DatabaseURL("postgres"))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	for _, name := range platform.Databases() {
		var exists bool
		err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&exists)
		if err == nil && !exists {
			_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
		}
		if err != nil {
			return errors.Join(fmt.Errorf("create database %s: %w", name, err), conn.Close(ctx))
		}
	}
	return conn.Close(ctx)
}

// memoryFolder is the folder of Linux's in-memory file system.
const memoryFolder = "/dev/shm"

// testPostgres returns the server on which tests and their platforms create hundreds of databases,
// each of about 300 files. Its data is in memory if there is room: on ext4, creating files soon
// after deleting others took a tenth of the processor time of all tests. The platform has another
// server, because this one's data is lost when it stops.
func (s *Set) testPostgres() backend {
	const name = "postgres-tests"
	folders := s.postgresFolders(name)
	if inMemory := filepath.Join(memoryFolder, s.outsideName(), name); fitsInMemory(inMemory) {
		folders = append([]string{inMemory}, folders...)
	}
	b := postgresServer{
		set: s, name: name, port: platform.TestPostgresPort, folders: folders,
		// The write-ahead log is kept small: after a crash of the machine, the data in memory is lost
		// anyway. Many tests and platforms connect at the same time.
		settings: []string{
			"full_page_writes=off", "wal_level=minimal", "max_wal_senders=0", "max_wal_size=256MB", "max_connections=600",
		},
	}.backend()
	b.forTests, b.temporary = true, true
	return b
}

// fitsInMemory reports whether the data folder dir is in memory or has room there.
func fitsInMemory(dir string) bool {
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		return err == nil
	}
	const minFree, tmpfs = 1 << 30, 0x01021994
	var fs syscall.Statfs_t
	return syscall.Statfs(memoryFolder, &fs) == nil && fs.Type == tmpfs && freeBytes(fs) >= minFree
}
