package postgres

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/pressly/goose/v3"
)

// errFileChanged means that a file was edited after it was applied, which may happen before the
// first release only: the changed file cannot be applied to the existing tables.
var errFileChanged = errors.New("this database was made from another version of the file, and nothing was changed: run make reset")

// fileHashes stores the hash of each applied file, in a table beside goose's table of versions.
type fileHashes struct {
	set      MigrationSet
	versions string // name of goose's table of versions
	table    string
	byID     map[int64]migrationFile
}

type migrationFile struct{ name, sha256 string }

func newFileHashes(set MigrationSet, files fs.FS, sources []*goose.Source) (*fileHashes, error) {
	h := &fileHashes{set: set, versions: versionTable(set), table: versionTable(set) + "_files", byID: make(map[int64]migrationFile, len(sources))}
	for _, s := range sources {
		content, err := fs.ReadFile(files, s.Path)
		if err != nil {
			return nil, fmt.Errorf("migrations of %s: %w", set.Name, err)
		}
		sum := sha256.Sum256(content)
		h.byID[s.Version] = migrationFile{path.Base(s.Path), hex.EncodeToString(sum[:])}
	}
	return h, nil
}

// checkUnchanged fails with errFileChanged if the stored hash of an applied version is missing or
// is not that of its file. A version without a file is of a later release, and accepted.
func (h *fileHashes) checkUnchanged(ctx context.Context, conn *sql.Conn) error {
	applied, err := h.appliedHashes(ctx, conn)
	if err != nil {
		return fmt.Errorf("applied migrations of %s: %w", h.set.Name, Err(err))
	}
	for version, hash := range applied {
		file, exists := h.byID[version]
		if !exists {
			file.name = fmt.Sprintf("migration %d", version)
		}
		if hash == "" || exists && hash != file.sha256 {
			return fmt.Errorf("%s of %s: %w", file.name, h.set.Name, errFileChanged)
		}
	}
	return nil
}

// appliedHashes returns the stored hash of each applied version; empty where none is stored.
func (h *fileHashes) appliedHashes(ctx context.Context, conn *sql.Conn) (map[int64]string, error) {
	var versions, hashes bool
	err := conn.QueryRowContext(ctx, `SELECT to_regclass($1) IS NOT NULL, to_regclass($2) IS NOT NULL`, h.versions, h.table).Scan(&versions, &hashes)
	if err != nil || !versions {
		return nil, err
	}
	query := `SELECT version_id, '' FROM ` + h.versions + ` WHERE version_id > 0`
	if hashes {
		query = `SELECT v.version_id, coalesce(f.sha256, '') FROM ` + h.versions + ` AS v LEFT JOIN ` + h.table + ` AS f ON f.version = v.version_id
			WHERE v.version_id > 0`
	}
	rows, err := conn.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	applied := make(map[int64]string)
	for rows.Next() {
		var version int64
		var hash string
		if err := rows.Scan(&version, &hash); err != nil {
			return nil, err
		}
		applied[version] = hash
	}
	return applied, rows.Err()
}

// storeHashes stores the hashes of all files before these are applied. If the process ends in
// between, hashes of versions that are not applied remain: checkUnchanged ignores them, and the
// next call replaces them.
func (h *fileHashes) storeHashes(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS `+h.table+` (version bigint PRIMARY KEY, sha256 text NOT NULL)`)
	for version, file := range h.byID {
		if err != nil {
			break
		}
		_, err = conn.ExecContext(ctx, `INSERT INTO `+h.table+` AS f (version, sha256) VALUES ($1, $2)
			ON CONFLICT (version) DO UPDATE SET sha256 = excluded.sha256 WHERE f.sha256 <> excluded.sha256`, version, file.sha256)
	}
	if err != nil {
		return fmt.Errorf("keep the hashes of the migrations of %s: %w", h.set.Name, Err(err))
	}
	return nil
}
