package settings_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/internal/settings"
	"urr.guru/scripts/platform"
)

const service = `package app

import (
	"time"

	"urr.guru/pkg/config"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/store"
)

// Config is the service's.
type Config struct {
	store.Config

	Peer   store.Peer %senv:", prefix=SHOP_"%s
	Stock  rpc.OptionalPeer %senv:", prefix=STOCK_"%s
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
	// Relays are in order.
	Relays []string %senv:"RELAYS, default=https://a.example,https://b.example"%s
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

const peers = `package rpc

type OptionalPeer struct {
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
	write(t, filepath.Join(root, "pkg/rpc/client.go"), peers)
	got, err := settings.Read(root, "shop")
	require.NoError(t, err)
	const limits, peer = "services/shop/internal/app.Limits", "pkg/store.Peer"
	require.Empty(t, cmp.Diff([]settings.Setting{
		{Name: "URL", Takes: "**secret**", Required: true, Meaning: "the address of the store", Type: "config.Secret", Of: "pkg/store.Config"},
		{Name: "SHOP_ADDR", Takes: "text", Meaning: "host:port", Type: "string", Of: peer},
		{Name: "STOCK_ADDR", Takes: "text", Meaning: "host:port", Type: "string", Of: "pkg/rpc.OptionalPeer"},
		{Name: "RATE", Takes: "number, from 0", Default: "0.5", Meaning: "how many a second|minute, beside `HOLD`", Type: "float64", Min: "0", Of: limits},
		{Name: "HOLD", Takes: "duration, 1s to 1h", Default: "5m", Meaning: "bounds a wait", Type: "time.Duration", Min: "1s", Max: "1h", Of: limits},
		{Name: "MODE", Takes: "this, that", Meaning: "this or that", Type: "string", OneOf: []string{"this", "that"}, Of: limits},
		{Name: "KEYS", Takes: "**secrets** by name", Meaning: "by name", Type: "map[string]config.Secret", Of: limits},
		{Name: "RELAYS", Takes: "list", Default: "https://a.example,https://b.example", Meaning: "in order", Type: "[]string", Of: limits},
	}, got, cmpopts.EquateEmpty()))

	shop, err := settings.Describe(root, "shop", map[string][]string{"shop": {"stock"}, "till": {"shop"}})
	require.NoError(t, err)
	require.Equal(t, []string{"till"}, shop.Callers)
	require.Equal(t, map[string]bool{"stock": true}, shop.Calls)
	_, err = settings.Describe(root, "shop", map[string][]string{"shop": {"bank", "stock"}})
	require.ErrorContains(t, err, "the Config of shop has the peers [stock], but RPCs have it as a caller in [bank stock]")
	values := filepath.Join(root, "charts", "shop", "values.yaml")
	write(t, values, "a: b\n# rpc: make settings\nformer: c\n# rpc end\nd: e\n")
	for range 2 {
		require.NoError(t, shop.WriteRPC(filepath.Join(root, "charts")))
		raw, err := os.ReadFile(values)
		require.NoError(t, err)
		require.Equal(t, "a: b\n# rpc: make settings\nrpc:\n  callers: [till]\n  calls:\n    stock: {address: \"\"} # or none\n# rpc end\nd: e\n", string(raw))
	}

	write(t, filepath.Join(root, "services/shop/internal/app/config.go"), strings.Replace(service, "	// Hold bounds a wait.\n", "", 1))
	_, err = settings.Read(root, "shop")
	require.ErrorContains(t, err, "HOLD: its field has no comment")
}

func TestListsAreWrittenBetweenTheirMarks(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	const marked = "before\n\n<!-- settings: make settings -->\nold\n<!-- settings end -->\n\nafter\n"
	shop, till := filepath.Join(root, "services", "shop", "README.md"), filepath.Join(root, "services", "till", "README.md")
	common := filepath.Join(root, "pkg", "README.md")
	for _, path := range []string{shop, till, common} {
		write(t, path, marked)
	}
	url := settings.Setting{Name: "URL", Takes: "**secret**", Required: true, Meaning: "the store", Of: "pkg/store.Config"}
	services := []settings.Service{
		{Name: "shop", Settings: []settings.Setting{
			url, {Name: "TILL_ADDR", Takes: "text", Required: true, Meaning: "host:port", Of: "pkg/rpc.Peer"},
			{Name: "HOLD", Takes: "duration", Default: "5m", Meaning: strings.Repeat("a wait|pause ", 12)},
		}},
		{Name: "till", Settings: []settings.Setting{url, {Name: "SHOP_ADDR", Takes: "text", Meaning: "host:port", Of: "pkg/rpc.OptionalPeer"}}},
	}
	list := func(lines ...string) string {
		return strings.Replace(marked, "old", "\n"+strings.Join(lines, "\n")+"\n", 1)
	}
	for range 2 {
		require.NoError(t, settings.Write(root, services))
		for path, want := range map[string]string{
			shop: list("- [Settings of pkg](../../pkg/README.md#settings): `store`.", "- Services that it calls: `TILL_ADDR`.",
				"- `HOLD` (duration; default `5m`): "+strings.TrimSuffix(strings.Repeat("a wait|pause ", 8), " ")+" a",
				"  "+strings.TrimPrefix(strings.TrimSuffix(strings.Repeat("a wait|pause ", 4), " "), "a ")),
			till: list("- [Settings of pkg](../../pkg/README.md#settings): `store`.", "- Services that may be absent: `SHOP_ADDR`."),
			common: list("`store`:", "", "- `URL` (**secret**; required): the store", "", "`rpc`, for a service X that is called:", "",
				"- `X_ADDR` (text; required): host:port", "", "`rpc`, for a service X that is called and may be absent:", "",
				"- `X_ADDR` (text): host:port"),
		} {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(want, string(text)))
		}
	}
	require.NoError(t, os.WriteFile(common, []byte("no marks\n"), 0o600))
	require.ErrorContains(t, settings.Write(root, services), "no place for the settings")
}

func TestEveryServiceHasItsList(t *testing.T) {
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
		require.Contains(t, string(readme), settings.List(all), "make settings")
	}
}
