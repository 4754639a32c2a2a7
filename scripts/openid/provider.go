// Package openid is an OpenID Connect provider for development and tests: on a form, anybody signs
// in as any user, with any roles, without a password. The protocol is implemented by
// github.com/zitadel/oidc; the storage, in memory, is that of the library's example.
package openid

import (
	"context"
	"crypto/sha256"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	_ "embed"
)

// Client is the only OpenID Connect client (relying party) of the provider.
type Client struct {
	ID, Secret string
	// URL is the client's address in browsers, and Redirect is its path that gets authorization codes.
	URL, Redirect string
}

// rolesClaim is the claim of ID tokens that has the roles chosen on the form.
const rolesClaim = "roles"

//go:embed form.html
var formText string

var form = template.Must(template.New("form").Parse(formText))

// New returns a provider's handler. The caller serves it under the path of the URL issuer.
func New(issuer string, c Client, log *slog.Logger) (http.Handler, error) {
	u, err := url.Parse(issuer)
	if err != nil {
		return nil, fmt.Errorf("issuer: %w", err)
	}
	people := &userStore{roles: map[string][]string{}}
	opStorage := &store{
		people: people,
		client: &client{Client: storage.WebClient(c.ID, c.Secret, c.URL+c.Redirect), base: u.Path, afterSignOut: c.URL + "/"},
	}
	opStorage.Storage = storage.NewStorageWithClients(people, map[string]*storage.Client{c.ID: opStorage.client.Client})
	provider, err := op.NewProvider(
		&op.Config{CryptoKey: sha256.Sum256([]byte(c.Secret)), CryptoKeyId: "1", CodeMethodS256: true, AuthMethodPost: true},
		opStorage, op.StaticIssuer(issuer), op.WithAllowInsecure(), op.WithLogger(log),
	)
	if err != nil {
		return nil, fmt.Errorf("make the provider: %w", err)
	}
	callback := op.AuthCallbackURL(provider)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /sign-in", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = form.Execute(w, r.URL.Query().Get("id"))
	})
	interceptor := op.NewIssuerInterceptor(provider.IssuerFromRequest)
	mux.Handle("POST /sign-in", interceptor.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 1<<14)
		if err := r.ParseForm(); err != nil {
			http.Error(w, "the form cannot be read", http.StatusBadRequest)
			return
		}
		id, user := r.PostForm.Get("id"), strings.TrimSpace(r.PostForm.Get("user"))
		if r.PostForm.Has("deny") {
			opStorage.denySignIn(w, r, id)
			return
		}
		people.setRoles(user, r.PostForm["role"])
		if err := opStorage.CheckUsernamePassword(user, "", id); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		http.Redirect(w, r, callback(r.Context(), id), http.StatusFound)
	}))
	mux.Handle("/", provider)
	return mux, nil
}

// userStore is the library's store of users. Every name is a user, and no password is checked.
type userStore struct {
	mu    sync.Mutex
	roles map[string][]string
}

var _ storage.UserStore = (*userStore)(nil)

func (p *userStore) setRoles(user string, roles []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.roles[user] = roles
}

func (p *userStore) rolesOf(user string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.roles[user]
}

func (*userStore) GetUserByID(id string) *storage.User { return &storage.User{ID: id, Username: id} }
func (*userStore) GetUserByUsername(name string) *storage.User {
	return &storage.User{ID: name, Username: name}
}
func (*userStore) ExampleClientID() string { return "" }

// store is the library's storage with one client. Its ID tokens contain the roles.
type store struct {
	*storage.Storage

	people *userStore
	client *client
}

func (s *store) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	if _, err := s.Storage.GetClientByClientID(ctx, id); err != nil {
		return nil, err
	}
	return s.client, nil
}

func (s *store) SetUserinfoFromRequest(_ context.Context, info *oidc.UserInfo, request op.IDTokenRequest, _ []string) error {
	info.Subject = request.GetSubject()
	info.AppendClaims(rolesClaim, s.people.rolesOf(request.GetSubject()))
	return nil
}

// denySignIn ends a sign-in with the error access_denied, as if the user had not consented.
func (s *store) denySignIn(w http.ResponseWriter, r *http.Request, id string) {
	request, err := s.AuthRequestByID(r.Context(), id)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	target := request.GetRedirectURI() + "?" + url.Values{"error": {"access_denied"}, "state": {request.GetState()}}.Encode()
	http.Redirect(w, r, target, http.StatusFound)
}

// client is the library's client, with the paths of the form and of the page after sign-out.
type client struct {
	*storage.Client

	base, afterSignOut string
}

func (c *client) LoginURL(id string) string { return c.base + "/sign-in?id=" + url.QueryEscape(id) }

func (c *client) PostLogoutRedirectURIs() []string { return []string{c.afterSignOut} }

// IDTokenUserinfoClaimsAssertion returns true: the ID token contains the roles.
func (*client) IDTokenUserinfoClaimsAssertion() bool { return true }
