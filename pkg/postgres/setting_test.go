package postgres_test

import (
	"context"
	"fmt"
	neturl "net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/config"
	"urr.guru/pkg/postgres"
	"urr.guru/pkg/postgres/postgrestest"
)

func TestSetting(t *testing.T) {
	t.Parallel()
	url := postgrestest.URL(t)
	for params, want := range map[string]string{"": "off", "&enable_seqscan=on": "on"} {
		pool, err := postgres.Open(t.Context(), postgres.Config{URL: url + config.Secret(params), MaxConns: 1}, "test",
			postgres.Indexed())
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		var got string
		require.NoError(t, pool.QueryRow(t.Context(), `SHOW enable_seqscan`).Scan(&got))
		require.Equal(t, want, got)
	}
}

// A changed password needs no restart: new connections use the user and password in the file.
func TestNewConnectionsSignInAsTheFileSays(t *testing.T) {
	t.Parallel()
	admin := postgrestest.New(t)
	url := postgrestest.URL(t)
	file := filepath.Join(t.TempDir(), "url")
	writeUser := func(user string) {
		parsed, err := neturl.Parse(url.Reveal())
		require.NoError(t, err)
		parsed.User = neturl.UserPassword(user, "a password")
		require.NoError(t, os.WriteFile(file, []byte(parsed.String()+"\n"), 0o600))
	}
	var roles []string
	for _, name := range []string{"first", "second"} {
		role := fmt.Sprintf("%s_%s", name, strings.ReplaceAll(uuid.NewString(), "-", "")[:12])
		_, err := admin.Exec(t.Context(), `CREATE ROLE `+role+` LOGIN PASSWORD 'a password'`)
		require.NoError(t, err)
		t.Cleanup(func() {
			_, err := admin.Exec(context.Background(), `DROP ROLE `+role)
			require.NoError(t, err)
		})
		roles = append(roles, role)
	}
	writeUser(roles[0])
	content, err := config.File{Variable: "DATABASE_URL", Path: file}.Read()
	require.NoError(t, err)
	pool, err := postgres.Open(t.Context(), postgres.Config{URL: content, URLFile: file, MaxConns: 1}, "test")
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	for _, role := range roles {
		writeUser(role)
		pool.Reset()
		var user string
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT current_user`).Scan(&user))
		require.Equal(t, role, user)
	}
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	pool.Reset()
	require.NoError(t, pool.Ping(t.Context()), "an empty file does not count")
	require.NoError(t, os.WriteFile(file, []byte("no url"), 0o600))
	pool.Reset()
	require.NoError(t, pool.Ping(t.Context()), "nor does content that is no URL")
}
