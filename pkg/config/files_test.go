package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/config"
)

// write creates a file with its parent folders, and returns its path.
func write(t *testing.T, path, content string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestSecretFromFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	got, err := config.LoadFrom[sample](t.Context(), map[string]string{
		"SECRET_FILE":     write(t, filepath.Join(dir, "secret"), "in a file\n"),
		"TICKET_KEY_FILE": write(t, filepath.Join(dir, "key"), "of ticket"),
		"ACCEPT_FILE":     write(t, filepath.Join(dir, "accept"), "gateway:a|b,vwr:c\r\n"),
		"LEVEL_FILE":      "not read: LEVEL is no secret",
	})
	require.NoError(t, err)
	require.Equal(t, "in a file", got.Secret.Reveal())
	require.Equal(t, "of ticket", got.Ticket.Key.Reveal())
	require.Equal(t, map[string]config.Secret{"gateway": "a|b", "vwr": "c"}, got.Accept)
}

// Like a mounted Kubernetes Secret: links into ..data, which links to the current version's folder.
func TestMapFromFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, key := range map[string]string{"gateway": "a|b\n", "vwr": "c"} {
		write(t, filepath.Join(dir, "..2030", name), key)
		require.NoError(t, os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)))
	}
	require.NoError(t, os.Symlink("..2030", filepath.Join(dir, "..data")))
	got, err := config.LoadFrom[sample](t.Context(), map[string]string{"SECRET": "s", "ACCEPT_FILE": dir})
	require.NoError(t, err)
	require.Equal(t, map[string]config.Secret{"gateway": "a|b", "vwr": "c"}, got.Accept)
}

func TestUnusableFilesAreReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	write(t, path("empty"), "\n")
	write(t, path("large"), strings.Repeat("hush", 20_000))
	write(t, path("folder/gateway"), "hush,vwr:hush")
	require.NoError(t, os.Mkdir(path("nobody"), 0o700))
	for name, tc := range map[string]struct {
		env  map[string]string
		want string
	}{
		"missing":    {map[string]string{"SECRET_FILE": path("missing")}, `SECRET_FILE="` + path("missing") + `": no such file or directory`},
		"empty":      {map[string]string{"SECRET_FILE": path("empty")}, `SECRET_FILE="` + path("empty") + `": is empty`},
		"large":      {map[string]string{"SECRET_FILE": path("large")}, `SECRET_FILE="` + path("large") + `": is larger than 65536 bytes`},
		"folder":     {map[string]string{"SECRET_FILE": dir}, `SECRET_FILE="` + dir + `": is a directory`},
		"both":       {map[string]string{"SECRET": "hush", "SECRET_FILE": path("empty")}, `SECRET and SECRET_FILE are both set: one of them must go`},
		"comma":      {map[string]string{"SECRET": "s", "ACCEPT_FILE": path("folder")}, `ACCEPT_FILE="` + path("folder") + `": gateway: must not contain a comma`},
		"no entries": {map[string]string{"SECRET": "s", "ACCEPT_FILE": path("nobody")}, `ACCEPT_FILE="` + path("nobody") + `": has no files`},
	} {
		_, err := config.LoadFrom[sample](t.Context(), tc.env)
		require.EqualError(t, err, tc.want, name)
		require.NotContains(t, err.Error(), "hush", name)
	}
}

func TestFilesOfTheEnvironment(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("SECRET_FILE", write(t, filepath.Join(dir, "secret"), "first"))
	t.Setenv("TICKET_KEY_FILE", write(t, filepath.Join(dir, "key"), "of ticket"))
	files := config.SecretFiles[sample]()
	require.Len(t, files, 2)
	require.Equal(t, []string{"SECRET", "TICKET_KEY"}, []string{files[0].Variable, files[1].Variable})
	content, err := files[0].Read()
	require.NoError(t, err)
	require.Equal(t, "first", content.Reveal())

	got, err := config.LoadWith[sample](t.Context(), map[string]config.Secret{"SECRET": "given"})
	require.NoError(t, err)
	require.Equal(t, "given", got.Secret.Reveal(), "not the file's")
	require.Equal(t, "of ticket", got.Ticket.Key.Reveal())
	require.Equal(t, []string{"ACCEPT", "SECRET", "TICKET_KEY"}, config.Secrets[sample]())
}

func TestContentsRoundTrip(t *testing.T) {
	t.Parallel()
	env := map[string]string{"SECRET": "s", "ACCEPT": "vwr:c,gateway:a|b", "TICKET_KEY": "k"}
	got, err := config.LoadFrom[sample](t.Context(), env)
	require.NoError(t, err)
	require.Equal(t, map[string]config.Secret{"SECRET": "s", "ACCEPT": "gateway:a|b,vwr:c", "TICKET_KEY": "k"}, config.SecretContents(got))
}

// The External Secrets operator may delete and recreate a Secret, or empty one of its keys before
// it writes the next content.
func TestLatestKeepsTheLastContent(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secret")
	latest := config.LatestSecret("SECRET", path, "given")
	require.Equal(t, "given", latest().Reveal(), "missing from the start")
	write(t, path, "first\n")
	require.Equal(t, "first", latest().Reveal())
	write(t, path, "")
	require.Equal(t, "first", latest().Reveal(), "empty")
	require.NoError(t, os.Remove(path))
	require.Equal(t, "first", latest().Reveal(), "missing")
	write(t, path, "second")
	require.Equal(t, "second", latest().Reveal())
	require.Equal(t, "given", config.LatestSecret("SECRET", "", "given")().Reveal(), "no file")

	short := func(s config.Secret) bool { return len(s) < 10 }
	latest = config.LatestSecret("SECRET", path, "given", short)
	write(t, path, "longer than ten")
	require.Equal(t, "given", latest().Reveal(), "not usable")
	write(t, path, "third")
	require.Equal(t, "third", latest().Reveal())
}
