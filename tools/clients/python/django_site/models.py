"""Models of the checks: fields of most kinds, relations, constraints and indexes."""

from django.db import models


class Author(models.Model):
    name = models.CharField(max_length=60, unique=True)
    email = models.EmailField(blank=True)
    born = models.DateField(null=True)
    active = models.BooleanField(default=True)

    class Meta:
        app_label = "django_site"


class Book(models.Model):
    title = models.CharField(max_length=100, db_index=True)
    price = models.DecimalField(max_digits=8, decimal_places=2, default=0)
    pages = models.PositiveIntegerField(default=1)
    rating = models.FloatField(null=True)
    printed = models.DateTimeField(auto_now_add=True)
    code = models.UUIDField(null=True)
    cover = models.BinaryField(null=True)
    author = models.ForeignKey(Author, on_delete=models.CASCADE, related_name="books")

    class Meta:
        app_label = "django_site"
        constraints = [models.CheckConstraint(condition=models.Q(price__gte=0), name="price_is_positive")]
        indexes = [models.Index(fields=["author", "-printed"])]
        unique_together = [("author", "title")]


class Note(models.Model):
    """No relation to others."""

    text = models.TextField()
    day = models.DateField(null=True)
    number = models.IntegerField(default=0)

    class Meta:
        app_label = "django_site"


class Wide(models.Model):
    data = models.JSONField(default=dict)
    took = models.DurationField(null=True)
    at = models.TimeField(null=True)

    class Meta:
        app_label = "django_site"
