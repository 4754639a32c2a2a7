// Package schema has the migrations of the tables of figures, their inbox and their offsets. They
// have their own database schema, which can be dropped to count everything anew.
package schema

import (
	"embed"

	"urr.guru/pkg/inbox"
	"urr.guru/pkg/postgres"
)

//go:embed migrations/*.sql
var files embed.FS

// Name is the name of the schema.
const Name = "figures"

// Migrations create the schema's tables.
var Migrations = MigrationsOf(Name)

// MigrationsOf returns the migrations that create the tables in a schema of another name.
func MigrationsOf(name string) []postgres.MigrationSet {
	return []postgres.MigrationSet{
		{Name: Name, Schema: name, FS: files},
		{Name: inbox.Migrations.Name, Schema: name, FS: inbox.Migrations.FS},
	}
}
