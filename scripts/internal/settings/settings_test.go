package settings_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/internal/settings"
	"urr.guru/scripts/platform"
)

const service = `package app

import (
	"time"

	"urr.guru/pkg/config"
	"urr.guru/pkg/store"
)

// Config is the service's.
type Config struct {
	store.Config

	Peer   store.Peer %senv:", prefix=SHOP_"%s
	Limits Limits
	clock  func() time.Time
}

// Limits are some.
type Limits struct {
	// Rate is how many a second|minute,
	// beside Hold.
	Rate float64 %senv:"RATE, default=0.5" min:"0"%s
	// Hold bounds a wait.
	Hold time.Duration %senv:"HOLD, default=5m" min:"1s" max:"1h"%s
	// Mode is this or that.
	Mode string %senv:"MODE" oneof:"this that"%s
	// Keys are by name.
	Keys map[string]config.Secret %senv:"KEYS"%s
}
`

const shared = `package store

import "urr.guru/pkg/config"

type Config struct {
	// URL is the address of the store.
	URL config.Secret %senv:"URL, required"%s
	// URLFile is where URL comes from.
	URLFile string %senv:"URL_FILE"%s
}

type Peer struct {
	// Addr is host:port.
	Addr string %senv:"ADDR"%s
}
`

func write(t *testing.T, path, source string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(source, "%s", "`")), 0o600))
}

func TestSettingsOfAService(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, filepath.Join(root, "services/shop/internal/app/config.go"), service)
	write(t, filepath.Join(root, "pkg/store/store.go"), shared)
	got, err := settings.Read(root, "shop")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff([]settings.Setting{
		{Name: "URL", Takes: "**secret**", Required: true, Meaning: "the address of the store"},
		{Name: "SHOP_ADDR", Takes: "text", Meaning: "host:port"},
		{Name: "RATE", Takes: "number, from 0", Default: "0.5", Meaning: "how many a second\\|minute, beside `HOLD`"},
		{Name: "HOLD", Takes: "duration, 1s to 1h", Default: "5m", Meaning: "bounds a wait"},
		{Name: "MODE", Takes: "this, that", Meaning: "this or that"},
		{Name: "KEYS", Takes: "**secrets** by name", Meaning: "by name"},
	}, got))

	write(t, filepath.Join(root, "services/shop/internal/app/config.go"), strings.Replace(service, "	// Hold bounds a wait.\n", "", 1))
	_, err = settings.Read(root, "shop")
	require.ErrorContains(t, err, "HOLD: its field has no comment")
}

func TestTableIsWrittenBetweenItsMarks(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "README.md")
	one := []settings.Setting{{Name: "HOLD", Takes: "duration", Default: "5m", Meaning: "a wait"}}
	require.NoError(t, os.WriteFile(path, []byte("before\n\n<!-- settings: make settings -->\nold\n<!-- settings end -->\n\nafter\n"), 0o600))
	for range 2 {
		require.NoError(t, settings.Write(path, one))
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, "before\n\n<!-- settings: make settings -->\n\n"+settings.Table(one)+"\n<!-- settings end -->\n\nafter\n", string(text))
	}
	require.NoError(t, os.WriteFile(path, []byte("no marks\n"), 0o600))
	require.ErrorContains(t, settings.Write(path, one), "no place for the settings")
}

func TestEveryServiceHasItsTable(t *testing.T) {
	t.Parallel()
	layout, err := platform.Find()
	require.NoError(t, err)
	for _, name := range platform.Names() {
		if name == platform.Sandbox {
			continue
		}
		all, err := settings.Read(layout.Root, name)
		require.NoError(t, err)
		readme, err := os.ReadFile(filepath.Join(layout.Root, "services", name, "README.md"))
		require.NoError(t, err)
		require.Contains(t, string(readme), settings.Table(all), "make settings")
	}
}
